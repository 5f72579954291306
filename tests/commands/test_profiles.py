"""`speccli profiles`: a list to choose from, an explanation, a check, and the places."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from speccli import paths
from speccli.commands.profiles import check, list_pairings, path, show
from speccli.commands.profiles.catalogue_text import natural
from speccli.commands.profiles.serve import serve_command
from speccli.errors import ExitCode, UsageError
from speccli.hardware.shipped import named
from speccli.pairing import resolve
from speccli.profile import Settings, load

CATALOGUE_ENTRY = """\
llama-3-8b  Meta-Llama-3-8B-Instruct, with a context of 8192 tokens
  llama-3-8b                bf16               16.1 GB, Llama 3 Community, gated
  + eagle-yuhuili           eagle        k=2                                      ? licence, facts
  + ngram                   ngram        k=4
  + suffix                  suffix       k=24  needs arctic-inference==0.1.1
  on l4, h100: llama-3-8b + eagle-yuhuili
"""

EXPLANATION = """\
qwen3-8b-fp8 on l4
Qwen3-8B, a general chat model that can think

target      qwen3-8b-fp8
            in FP8 it takes 8.8 of the L4's 22.0 GiB; in bf16 it would leave room for a few short
            conversations  [typed; pairing qwen3-8b for l4]
            RedHatAI/Qwen3-8B-FP8-dynamic, fp8, 9.4 GB, licence Apache-2.0, not gated

method      eagle3
            a head of 0.8 GB, and vLLM's own test holds its acceptance with this target  [pairing
            qwen3-8b for l4]

speculator  RedHatAI/Qwen3-8B-speculator.eagle3
            adds 0.8 GB, licence Apache-2.0
            published: 2.26 tokens a step at k=3, MT-Bench (vLLM's tests, test_acceptance_length.py)

k           3
            vLLM's acceptance test uses 3  [pairing qwen3-8b for l4]

Settings
  temperature                 0.7                   [environment]
  max_tokens                  512                   [default]
  max_model_len               16384                 [pairing qwen3-8b for l4]
  reasoning_parser            qwen3                 [pairing qwen3-8b]

Instead
"""

SERVED = """\
As a server of vLLM's own
  vllm serve RedHatAI/Qwen3-8B-FP8-dynamic \\
    --max-model-len 16384 \\
    --reasoning-parser qwen3 \\
    --override-generation-config '{"temperature": 0.7}' \\
    --speculative-config '{"method": "eagle3", "model": "RedHatAI/Qwen3-8B-speculator.eagle3", "num_speculative_tokens": 3}'
"""


def command_for(hardware: str, **typed: object) -> list[str]:
    """The words that a shell makes of the command."""
    profile, pairing = resolve(load(Settings(**typed), None, {}), named(hardware))  # type: ignore[arg-type]
    return shlex.split(serve_command(pairing, profile.settings, named(hardware)).replace("\\\n", ""))


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


# --- list


def test_the_list_reads_like_a_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_pairings(None, as_json=False) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert CATALOGUE_ENTRY in printed
    assert "Machines, with a count where there are several devices (h100x2): a100-40," in printed


def test_the_list_for_a_machine_holds_what_has_a_choice_there(capsys: pytest.CaptureFixture[str]) -> None:
    list_pairings("h100x2", as_json=True)
    listed = json.loads(capsys.readouterr().out)["pairings"]
    chosen = {one["name"]: one["chosen"]["target"] for one in listed}
    assert chosen["gpt-oss-120b"] == "gpt-oss-120b"
    assert chosen["qwen3-8b"] == "qwen3-8b-bf16"
    assert "llama-3.2-1b" in chosen
    assert all(one["targets"] and one["speculators"] for one in listed)


def test_the_list_for_a_processor_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    list_pairings("cpu", as_json=True)
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["pairings"]]
    assert names == ["llama-3.2-1b", "qwen3-0.6b", "qwen3-1.7b", "smollm2-135m"]


def test_names_are_ordered_by_their_numbers() -> None:
    assert sorted(["qwen3-14b", "qwen3-4b", "qwen3.5-4b", "a"], key=natural) == [
        "a",
        "qwen3-4b",
        "qwen3-14b",
        "qwen3.5-4b",
    ]


def test_a_users_pairing_is_listed_as_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    folder = paths.config_dir() / "pairings"
    folder.mkdir(parents=True)
    shipped = (paths.profiles_dir() / "pairings" / "llama-3-8b.yaml").read_text()
    (folder / "mine.yaml").write_text(shipped)
    list_pairings(None, as_json=False)
    assert "mine  Meta-Llama-3-8B-Instruct, with a context of 8192 tokens  (yours)\n" in capsys.readouterr().out


# --- show


def test_show_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(Settings(target="qwen3-8b", hardware="l4"), None, False, {"SPECCLI_TEMPERATURE": "0.7"}) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(EXPLANATION)
    assert "  --speculator dflash               dflash, k=15, 4.24 on MT-Bench\n" in printed
    assert "  --hardware NAME                   has a choice for h100 too\n" in printed
    assert "  eagle3-redhat: licence, facts\n" in printed
    assert printed.endswith(SERVED)


def test_show_tells_of_gates_notes_and_packages(capsys: pytest.CaptureFixture[str]) -> None:
    show(Settings(target="llama-3-8b", hardware="l4", method="suffix"), None, False, {})
    printed = capsys.readouterr().out
    assert "gated: accept the licence on the repository's page" in printed
    assert "needs `pip install arctic-inference==0.1.1`" in printed
    assert "note: learns from earlier answers" in printed


def test_show_as_json_holds_the_reasons_and_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    show(Settings(target="gpt-oss-120b", hardware="h100x2"), None, True, {})
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (shown["schema_version"], shown["hardware"], shown["method"]) == (1, "h100x2", "eagle3")
    assert [decision["what"] for decision in shown["decisions"]] == [
        "target", "method", "speculator", "num_speculative_tokens",
    ]  # fmt: skip
    assert {one["key"]: one["source"] for one in shown["settings"]}[
        "tensor_parallel_size"
    ] == "pairing gpt-oss-120b for h100x2"
    assert shown["unverified"]["eagle3-nvidia"] == ["facts", "weight_bytes"]
    assert shown["target_facts"]["quantization_config"]["quant_method"] == "mxfp4"
    assert shlex.split(shown["command"].replace("\\\n", ""))[:3] == ["vllm", "serve", "openai/gpt-oss-120b"]


def test_show_of_a_target_that_no_file_describes(capsys: pytest.CaptureFixture[str]) -> None:
    show(Settings(target="org/name", hardware="l4"), None, False, {})
    printed = capsys.readouterr().out
    assert printed.startswith("org/name on l4\nno pairing file describes this target\n")
    assert "Instead" not in printed
    assert "Unverified" not in printed


# --- The command of vLLM's own


def test_the_command_survives_a_shell() -> None:
    words = command_for("h100x2")
    assert words[:3] == ["vllm", "serve", "openai/gpt-oss-120b"]
    assert option(words, "--tensor-parallel-size") == "2"
    assert json.loads(option(words, "--speculative-config")) == {
        "method": "eagle3",
        "model": "nvidia/gpt-oss-120b-Eagle3-v3",
        "num_speculative_tokens": 7,
        "draft_tensor_parallel_size": 1,
    }


def test_engine_arguments_become_options() -> None:
    engine = {
        "enable_prefix_caching": False,
        "language_model_only": True,
        "stream_interval": 2,
        "kernel_config": {"a": [1]},
    }
    words = command_for("l4", target="qwen3-8b", engine=engine)
    assert {"--no-enable-prefix-caching", "--language-model-only"} <= set(words)
    assert (option(words, "--stream-interval"), option(words, "--kernel-config")) == ("2", '{"a": [1]}')


def test_revisions_and_the_kv_cache_are_told() -> None:
    words = command_for("l4", target="Qwen/Qwen3-8B@abc", kv_cache_gib=1.5, enforce_eager=True, dtype="float16")
    assert (words[2], option(words, "--revision")) == ("Qwen/Qwen3-8B", "abc")
    assert (option(words, "--kv-cache-memory-bytes"), option(words, "--dtype")) == ("1610612736", "float16")
    assert "--enforce-eager" in words


def test_on_a_processor_the_kv_cache_is_a_variable() -> None:
    words = command_for("cpu", kv_cache_gib=2.0, threads_bind="0-1")
    assert words[:4] == ["VLLM_CPU_KVCACHE_SPACE=2", "VLLM_CPU_OMP_THREADS_BIND=0-1", "vllm", "serve"]


def test_the_reasoning_parser_of_the_pairing_is_told_and_can_be_left_out() -> None:
    assert option(command_for("l4", target="qwen3-8b"), "--reasoning-parser") == "qwen3"
    assert "--reasoning-parser" not in command_for("l4", target="qwen3-8b", reasoning_parser="none")
    assert "--reasoning-parser" not in command_for("l4", target="llama-3.1-8b")


def test_plain_decoding_has_no_speculative_config() -> None:
    assert "--speculative-config" not in command_for("l4", method="none")


# --- check and path


def test_check_says_what_a_pairing_holds(capsys: pytest.CaptureFixture[str]) -> None:
    file = paths.profiles_dir() / "pairings" / "llama-3-8b.yaml"
    assert check(file) == ExitCode.DONE
    assert capsys.readouterr().out == f"{file}: a pairing, 1 targets and 3 speculators, with choices for l4, h100\n"


def test_check_says_what_a_profile_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("temperature: 0.5\nengine: {block_size: 16}\n")
    check(file)
    assert capsys.readouterr().out == f"{file}: a profile, which sets temperature, engine\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temperature: hot\n", "line 1: `temperature` must be a number, not text"),
        ("engine: {blok_size: 16}\n", "line 1: vLLM has no engine argument `blok_size`"),
        ("seed: 1\nnum_speculative_tokens: 0\n", "line 2: num_speculative_tokens is 0"),
        ("num_speculative_tokens: 100000\n", "line 1: num_speculative_tokens is 100000"),
        ("hardware: nonsense\n", "line 1: no hardware is called 'nonsense'"),
        ("about: x\ntargets: []\nspeculators: []\nchoices: []\n", "line 2: `targets` is empty"),
    ],
)
def test_check_refuses_with_the_line_and_prints_nothing(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        check(file)
    assert caught.value.message == f"{file}, {message}"
    assert capsys.readouterr().out == ""


def test_path_tells_the_places_and_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    config = paths.config_dir()
    (config / "profiles").mkdir(parents=True)
    (config / "profiles" / "work.yaml").touch()
    path()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"settings            {config / 'config.yaml'}  (not there)"
    assert lines[1] == f"named by --profile  {config / 'profiles'}  (1 files)"
    assert lines[2] == f"own pairings        {config / 'pairings'}  (not there)"
    assert lines[3].startswith(f"shipped pairings    {paths.profiles_dir() / 'pairings'}  (")


def test_path_tells_what_stands_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    config = paths.config_dir()
    (config / "config.yaml").mkdir(parents=True)
    (config / "profiles").touch()
    (config / "pairings").symlink_to("nowhere")
    path()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  (")[2] for line in lines[:3]] == [
        "a folder, not a file)",
        "not a folder)",
        "a link to nothing)",
    ]


def test_path_tells_of_folders_that_may_not_be_searched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    path()
    assert capsys.readouterr().out.splitlines()[0].endswith("config.yaml  (Not a directory)")


# --- As a user types it


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys\nfrom speccli.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'torch', 'vllm', 'transformers', 'rich', 'huggingface_hub'} & set(sys.modules)\n"
        "    print('heavy', sorted(heavy), file=sys.stderr)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "profiles", *arguments],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["list"], ["show", "qwen3-8b", "--hardware", "l4"], ["path"]])
def test_nothing_heavy_is_imported_and_stderr_is_quiet(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "heavy []\n")
    assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "qwen3-8"], "error: no checkpoint is called 'qwen3-8'\nhint: did you mean `qwen3-8b`?\n"),
        (["show", "qwen3-8b", "--method", "eagle2"], "hint: did you mean `eagle` or `eagle3`?\n"),
        (
            ["show", "qwen3-8b", "--method", "mlp_speculator"],
            "error: method mlp_speculator cannot run: vLLM 0.32 lists it",
        ),
        (["show", ""], "error: the command line: `target` must be text that is not empty\n"),
        (["list", "--hardware", ""], "error: no hardware is called ''\n"),
        (["list", "--hardware", "h1000"], "error: no hardware is called 'h1000'\n"),
        (["check", "nowhere.yaml"], "error: cannot read nowhere.yaml: No such file or directory\n"),
    ],
)
def test_what_cannot_be_meant_exits_2_with_one_message(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
