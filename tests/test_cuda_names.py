"""The check that the CUDA build has the names that speccli uses, on a made-up library."""

import ast
import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from speccli.plan import PASSED

ROOT = Path(__file__).resolve().parent.parent

PLAIN = (".request_states", ".outputs", ".outputs_queue", ".utility_results")
"""Attributes of vLLM's objects that are dicts, lists and queues."""

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
        ("step(first, third=)", True),
        ("step(first, second)", True),
        ("step(first=, second=)", True),
        ("step(second)", False),
        ("step(second, first)", False),
        ("step(first, second, third)", False),
        ("step(fourth=)", False),
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


SOURCE = """\
from vllm.tools import helper, Motor as Engine
from vllm.tools import parts
def run(self, renderer):
    engine = Engine(size=1, **more)
    renderer.draw(page, colour=2, **more)
    self.renderer.clear(all=True)
    parts.wheel = helper(renderer.page)
"""


def test_what_a_file_uses_is_read_off_it() -> None:
    """Of a module each name is a definition of its own."""
    assert ci.used_in(ast.parse(SOURCE), {"renderer": "vllm.Renderer"}) == [
        ("vllm.tools.parts.wheel", []),
        ("vllm.Renderer", ["draw", "page", "draw(colour=)"]),
        ("vllm.tools.helper", []),
        ("vllm.tools.Motor", ["size"]),
    ]


def test_the_environment_variables_in_a_text_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("VLLM_OWN = 'set VLLM_ENABLE_V1=0, or VLLM_B; all are VLLM_'")
    assert ci.variables([tmp_path / "one.py"]) == {"VLLM_ENABLE_V1", "VLLM_B"}


@pytest.fixture(scope="module")
def used() -> dict[str, list[str]]:
    found: dict[str, list[str]] = ci.uses(ROOT)
    return found


def test_the_engine_arguments_that_speccli_gives(used: dict[str, list[str]]) -> None:
    assert {"model", "language_model_only", *PASSED} <= set(used[ci.ENGINE_ARGS])
    assert ci.given(ci.parsed(ROOT / ci.PLAN)) == (
        [
            "model",
            "served_model_name",
            "dtype",
            "max_model_len",
            "enforce_eager",
            "disable_log_stats",
            "per_request_spec_decode_metrics",
            "speculative_config",
            "model_loader_extra_config",
            "kv_cache_memory_bytes",
            "distributed_executor_backend",
        ],
        ["method", "num_speculative_tokens", "model"],
    )


def test_what_speccli_uses_is_found_in_its_source(used: dict[str, list[str]]) -> None:
    assert {"method", "num_speculative_tokens", "model", "prompt_lookup_max"} <= set(used[ci.SPECULATIVE_CONFIG])
    sampling = {
        "from_optional",
        *(f"from_optional({name}=)" for name in ("temperature", "logit_bias", "stream_interval")),
    }
    assert sampling <= set(used[ci.SAMPLING_PARAMS])
    engine = {"renderer", "engine_core", "from_vllm_config(disable_log_stats=)", "abort_request(internal=)"}
    assert engine <= set(used[ci.ENGINE])
    assert {"default_chat_tok_params", "get_tokenizer"} <= set(used[ci.RENDERER])
    assert "with_kwargs" in used[ci.TOKENIZE_PARAMS]
    assert {"detokenizer", "spec_decode_metrics"} <= set(used[ci.REQUEST_STATE])
    assert set(used[ci.LOGPROB]) == {"decoded_token", "logprob", "rank"}
    assert used["vllm.config.parallel.ParallelConfig"] == ["worker_extension_cls"]
    assert used["vllm.sampling_params.RequestOutputKind"] == ["DELTA"]
    assert used["vllm.v1.engine.exceptions.EngineDeadError"] == []
    assert "vllm.v1.sample.rejection_sampler" not in used
    assert {"vllm.envs.VLLM_CPU_KVCACHE_SPACE", "vllm.envs.VLLM_ENABLE_V1_MULTIPROCESSING"} <= used.keys()


def test_the_installed_build_has_all_that_speccli_uses(used: dict[str, list[str]]) -> None:
    """The names that are written down in the program are right, then; the CUDA build is what it is run for."""
    found = importlib.util.find_spec("vllm")
    assert found is not None
    assert found.origin is not None
    installed = ci.Library(Path(found.origin).parent.parent)
    lines = [*ci.verdicts(used, installed, installed), *ci.method_verdicts(installed)]
    assert [line for line in lines if not line.startswith("ok ")] == []


@pytest.mark.parametrize(("file", "types"), ci.SEAM.items())
def test_each_expression_whose_type_is_written_down_stands_in_the_seam(file: str, types: dict[str, str]) -> None:
    tree = ci.parsed(ROOT / file)
    assert [one for one in types if not ci.attributes(tree, one)] == []


def test_each_file_that_imports_vllm_belongs_to_the_seam() -> None:
    importing = {str(file.relative_to(ROOT)) for file in ROOT.glob("speccli/**/*.py") if ci.imports(ci.parsed(file))}
    assert importing == ci.SEAM.keys() - {"speccli/engine/flight.py", "speccli/engine/reasoning.py"}


@pytest.mark.parametrize(("file", "types"), ci.SEAM.items())
def test_what_is_taken_of_a_known_object_is_known_where_more_is_taken_of_it(file: str, types: dict[str, str]) -> None:
    """Else a name behind two dots would be looked up nowhere."""
    reached = {
        ast.unparse(node.value)
        for node in ast.walk(ci.parsed(ROOT / file))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and ast.unparse(node.value.value) in types
    }
    assert {one for one in reached - types.keys() if not one.endswith(PLAIN)} == set()


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
