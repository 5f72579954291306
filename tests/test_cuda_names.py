"""The check that the CUDA build has the names that speccli uses, on a made-up library."""

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

FILES = {
    "__init__.py": 'import typing\nMODULE_ATTRS = {"Engine": ".engine:Engine"}\nif typing.TYPE_CHECKING:\n    from .engine import Engine\n',
    "base.py": "from typing import Literal\nHard = Literal['hard']\nclass Base:\n    inherited: int\n    def __init__(self):\n        self.renderer = None\n",
    "engine.py": """\
from typing import Literal
from vllm.base import Base, Hard
Kind = Literal['soft', Hard]
class Engine(Base):
    '''An engine.'''
    field: int = 1
    def step(self, first, second=2, *, third=None): ...
def make(kind): ...
""",
}


def load() -> Any:
    spec = importlib.util.spec_from_file_location("ci_cuda_names", ROOT / ".ci" / "cuda_names.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ci = load()


def library(root: Path, **changes: tuple[str, str]) -> Any:
    """The made-up library under `root`, with a text of a file replaced by another."""
    folder = root / "vllm"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        old, new = changes.get(name.removesuffix(".py"), ("", ""))
        assert old in content
        (folder / name).write_text(content.replace(old, new) if old else content)
    return ci.Library(root)


@pytest.fixture
def installed(tmp_path: Path) -> Any:
    return library(tmp_path / "installed")


@pytest.mark.parametrize(
    ("dotted", "module"),
    [
        ("vllm.Engine", "vllm.engine"),
        ("vllm.engine.Base", "vllm.base"),
        ("vllm.engine.make", "vllm.engine"),
        ("vllm.engine.Kind", "vllm.engine"),
    ],
)
def test_a_name_is_followed_to_its_definition(installed: Any, dotted: str, module: str) -> None:
    assert installed.find(dotted).module == module


@pytest.mark.parametrize(
    "dotted", ["vllm.Motor", "vllm.engine.Motor", "vllm.motor.Engine", "vllm", "vllm.engine.field"]
)
def test_a_name_that_leads_nowhere(installed: Any, dotted: str) -> None:
    assert installed.find(dotted) is None
    assert ci.compared(dotted, installed, installed) == [f"MISSING {dotted}"]


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("field", True),
        ("inherited", True),
        ("renderer", True),
        ("gone", False),
        ("step", True),
        ("step()", True),
        ("step(first, third)", True),
        ("step(second, first)", False),
        ("step(fourth)", False),
        ("field()", False),
    ],
)
def test_members_and_arguments(installed: Any, name: str, is_there: bool) -> None:
    assert ci.is_there("vllm.Engine", name, installed) is is_there


def test_the_arguments_of_a_function(installed: Any) -> None:
    assert ci.is_there("vllm.engine.make", "(kind)", installed)
    assert not ci.is_there("vllm.engine.make", "(size)", installed)


def test_the_words_of_nested_literals(installed: Any) -> None:
    assert installed.words("vllm.engine.Kind") == {"soft", "hard"}


def test_the_same_texts_are_ok(installed: Any, tmp_path: Path) -> None:
    cuda = library(tmp_path / "cuda")
    assert ci.verdicts({"vllm.Engine": ["field"], "vllm.engine.make": ["(kind)"]}, cuda, installed) == [
        "ok      vllm.Engine",
        "ok      vllm.Engine.field",
        "ok      vllm.engine.make",
        "ok      vllm.engine.make(kind)",
    ]
    assert ci.other_files(cuda, installed) == [
        "note    of 3 files 0 have another text than the installed ones",
        "note    0 files are not installed, 0 are installed only",
    ]


def test_a_missing_member_and_another_text_are_told(installed: Any, tmp_path: Path) -> None:
    cuda = library(tmp_path / "cuda", engine=("field: int = 1", "area: int = 1"))
    assert ci.verdicts({"vllm.Engine": ["field", "renderer"]}, cuda, installed) == [
        "DIFFERS vllm.Engine: 2 lines",
        "          -     field: int = 1",
        "          +     area: int = 1",
        "MISSING vllm.Engine.field",
        "ok      vllm.Engine.renderer",
    ]
    assert ci.other_files(cuda, installed)[0].endswith(": vllm/engine.py")


def test_another_text_of_a_base_class_is_told(installed: Any, tmp_path: Path) -> None:
    cuda = library(tmp_path / "cuda", base=("inherited: int", "inherited: str"))
    assert ci.compared("vllm.Engine", cuda, installed)[0] == "DIFFERS vllm.Engine: 2 lines"


def test_what_speccli_uses_is_found_in_its_source() -> None:
    used = ci.uses(ROOT)
    assert {"model", "speculative_config", "tensor_parallel_size", "language_model_only"} <= set(used[ci.ENGINE_ARGS])
    assert {"method", "num_speculative_tokens", "model", "prompt_lookup_max"} <= set(used[ci.SPECULATIVE_CONFIG])
    assert {"temperature", "logit_bias", "from_optional"} <= set(used[ci.SAMPLING_PARAMS])
    assert {"renderer", "from_vllm_config", "engine_core"} <= set(used[ci.ENGINE])
    assert used["vllm.sampling_params.RequestOutputKind"] == ["DELTA"]
    assert used["vllm.v1.engine.exceptions.EngineDeadError"] == []
    assert "vllm.envs.VLLM_CPU_KVCACHE_SPACE" in used


def test_each_expression_whose_type_is_written_down_stands_in_the_seam() -> None:
    trees = [ci.parsed(ROOT / file) for file in ci.SEAM]
    assert [one for one in ci.TYPES if not any(ci.attributes(tree, one) for tree in trees)] == []


def test_only_python_sources_are_unpacked_of_what_pip_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index").mkdir()
    with zipfile.ZipFile(tmp_path / "index" / "vllm-0.32.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("vllm/engine.py", FILES["engine.py"])
        wheel.writestr("vllm/_C.so", "machine code")
        wheel.writestr("vllm-0.32.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
        wheel.writestr("vllm-0.32.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path / "index")), ("NO_CACHE_DIR", "1")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    ci.download(ci.requirement(ROOT), tmp_path)
    assert [file.name for file in (tmp_path / "cuda").rglob("*") if file.is_file()] == ["engine.py"]


def test_a_wheel_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert ci.main() == 1
    assert capfd.readouterr().err.endswith(
        "cuda_names: error: the wheel cannot be downloaded\nhint: see what pip says above\n"
    )


def test_the_wheel_is_the_one_of_the_cuda_extra() -> None:
    assert ci.requirement(ROOT).startswith("vllm>=")
