"""Whether the hub answers, asked in the background: a name server that is down may keep a question for long."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from speccli.checkpoint.hub.access import without_socks

TIMEOUT_S = 2.0


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is empty where the hub answered, or was not asked because of `offline_because`."""

    endpoint: str
    offline_because: str = ""
    error: str = ""
    answer_s: float = 0.0
    token_from: str = ""
    """Where a token was found; never the token."""


def ask_hub(environ: Mapping[str, str], *, offline: bool) -> Callable[[], Hub]:
    """Asks at once and returns at once; the function that it returns waits for the answer."""
    from huggingface_hub import constants

    hub = Hub(endpoint=constants.ENDPOINT, token_from=token_source(environ, Path(constants.HF_TOKEN_PATH)))
    because = "--offline" if offline else "HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else ""
    if because:
        return lambda: msgspec.structs.replace(hub, offline_because=because)
    wait = ask(hub.endpoint)
    return lambda: msgspec.structs.replace(hub, **wait())


def token_source(environ: Mapping[str, str], file: Path) -> str:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if environ.get(name, "").strip():
            return name
    has_token = os.path.isfile(file) and os.path.getsize(file)  # noqa: PTH113, PTH202 - False where the folder cannot be searched
    return str(file) if has_token else ""


def ask(endpoint: str, timeout_s: float = TIMEOUT_S) -> Callable[[], dict[str, str | float]]:
    """Any answer will do, also a refusal."""
    import httpx

    started = time.monotonic()
    # What stays, should the thread not come back in time.
    result: dict[str, str | float] = {"error": f"no answer within {timeout_s:.0f} s"}

    def question() -> None:
        try:
            httpx.head(endpoint, timeout=timeout_s)
        except (httpx.HTTPError, httpx.InvalidURL, ImportError, OSError, ValueError) as error:
            result["error"] = unanswered(error)
        else:
            result.update(error="", answer_s=time.monotonic() - started)

    thread = threading.Thread(target=question, daemon=True)
    thread.start()

    def wait() -> dict[str, str | float]:
        thread.join(max(0.0, started + timeout_s + 0.5 - time.monotonic()))
        return dict(result)

    return wait


def unanswered(error: Exception) -> str:
    """Why a question by httpx got no answer: beside its own errors, a host or a proxy that cannot be."""
    if isinstance(error, ImportError):
        return ": ".join(without_socks(os.environ))
    if isinstance(error, UnicodeError):
        return "no host can be called so"
    return str(error) or type(error).__name__
