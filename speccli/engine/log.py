"""The engine's log: where it lies, and how vLLM's output is led into it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from speccli import paths

KEPT_LOGS = 20


def new_log() -> Path:
    """A fresh log file in the state folder; old ones beyond `KEPT_LOGS` are deleted."""
    folder = paths.state_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("engine-*.log"))[: -KEPT_LOGS + 1]:
        old.unlink(missing_ok=True)
    log = folder / f"engine-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    log.touch()
    return log


def last_log() -> Path | None:
    """The log that an engine wrote to last."""
    logs = (paths.state_dir() / "logs").glob("engine-*.log")
    return max(logs, key=lambda log: (log.stat().st_mtime, log.name), default=None)


@contextlib.contextmanager
def child_output_to(log: Path) -> Iterator[None]:
    """While this lasts, file descriptors 1 and 2 lead to the log, and so do those of every process started meanwhile.

    Python's own sys.stdout and sys.stderr keep leading where they led, so that narration goes on.
    """
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        if stream is not None:  # it may be closed
            stream.flush()
    saved_out, saved_err = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with _like(out, saved_out) as real_out, _like(err, saved_err) as real_err:
        if _leads_to(out, 1):
            sys.stdout = real_out
        if _leads_to(err, 2):
            sys.stderr = real_err
        try:
            yield
        finally:
            real_out.flush()
            real_err.flush()
            sys.stdout, sys.stderr = out, err
            os.dup2(saved_out, 1)
            os.dup2(saved_err, 2)


@contextlib.contextmanager
def followed(log: Path) -> Iterator[None]:
    """While this lasts, copy what is added to the log to stderr."""
    ended = threading.Event()

    def follow() -> None:
        with log.open(errors="replace") as file:
            while True:
                last_round = ended.is_set()
                for line in file:
                    sys.stderr.write(line)
                if last_round:
                    return
                ended.wait(0.2)

    thread = threading.Thread(target=follow, name="follow-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def own_logging_to(log: Path) -> None:
    """Lead what this process itself logs (vLLM's front end, Python warnings) into the log file."""
    handler = logging.FileHandler(log)
    handler.setFormatter(
        logging.Formatter(
            "(MainProcess pid=%(process)d) %(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s",
            "%m-%d %H:%M:%S",
        )
    )
    logging.captureWarnings(True)
    for name in ("vllm", "py.warnings", "transformers", "torch"):
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)
        logger.propagate = False


def _like(stream: TextIO | None, descriptor: int) -> TextIO:
    encoding, errors = (stream.encoding, stream.errors) if stream is not None else (None, None)
    return os.fdopen(descriptor, "w", buffering=1, encoding=encoding, errors=errors)


def _leads_to(stream: object, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, OSError, ValueError):
        return False
