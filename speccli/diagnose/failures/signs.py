"""Words by which a log tells that something was raised, that a process died, or that the user ended the run."""

import re

from speccli.diagnose.failures.words import any_of

EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Timeout|Failed|NotSupported|Fault)\b(?::|$)"
)
TRACEBACK = "Traceback (most recent call last)"
IGNORED = ("exception ignored in", "exception in thread thread-monitor")
WRAPPERS = any_of(
    (
        "engine core initialization failed",
        "see root cause above",
        "see stack trace (above)",
        "workerproc initialization failed",
        "enginedeaderror",
        "enginecore encountered",
        "runtimeerror: cancelled",
        "cancellederror",
        "engine process failed to start",
        "failed core proc",
        "died unexpectedly",
        "mqllmengine is already dead",
        "got fatal signal from worker processes",
        "runtimeerror('engine process",
        "died with exit code",
        "process died before responding",
        "childfailederror",
        "actordiederror",
        "calledprocesserror",
        "keyboardinterrupt",
        "systemexit",
        "brokenpipeerror",
        "connectionreseterror",
        "application startup failed",
    )
)
DEATHS = any_of(
    (
        "workerproc failed to start",
        "enginecore failed to start",
        "enginecore encountered a fatal error",
        "enginecore hit an exception",
        "engine core initialization failed",
        "enginedeaderror",
        "engine process failed to start",
        "workerproc initialization failed",
        "died unexpectedly",
        "mqllmengine is already dead",
        "got fatal signal from worker processes",
        "runtimeerror('engine process",
    )
)
ENDED_ON_PURPOSE = any_of(
    (
        "trigger received signal",
        "keyboardinterrupt",
        "received signal 15",
        "received signal 2",
        "sigterm",
    )
)


def is_wrapper(text: str) -> bool:
    """Whether a line only says that a process died, or passes on what another one said."""
    lower = text.lower()
    return bool(WRAPPERS.search(lower) or DEATHS.search(lower))
