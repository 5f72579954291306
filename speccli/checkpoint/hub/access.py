"""How the hub is reached: with huggingface_hub's own settings, session and errors, and for a bounded time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from speccli import __version__
from speccli.checkpoint.hub.failures import asked_wait_s, is_passing, reason
from speccli.errors import UsageError

LONGEST_WAIT_S = 30.0
"""A hub that asks for more patience is not waited for."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Where the hub is, who asks, and where its cache lies."""

    endpoint: str
    cache: Path
    token: str | None = field(default=None, repr=False)
    is_offline: bool = False
    waits_s: tuple[float, ...] = (1.0, 2.0, 4.0)
    """Before each further try where the hub is overloaded, or a connection was cut."""


def from_client() -> Hub:
    """The hub as huggingface_hub understood HF_ENDPOINT, HF_HUB_CACHE, HF_TOKEN and HF_HUB_OFFLINE when it was imported."""
    from huggingface_hub import constants, get_token

    if not _is_address(constants.ENDPOINT):
        raise UsageError(f"HF_ENDPOINT is {constants.ENDPOINT!r}, which is no address", "write it as https://HOST")
    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if token and not re.fullmatch(r"[!-~]+", token):
        raise UsageError(
            "your token holds characters that no token has", "copy it again: `hf auth login`, or HF_TOKEN=…"
        )
    return Hub(
        endpoint=constants.ENDPOINT,
        cache=Path(constants.HF_HUB_CACHE),
        token=token or None,
        is_offline=constants.HF_HUB_OFFLINE,
    )


def headers(hub: Hub) -> dict[str, str]:
    named = {"User-Agent": f"speccli/{__version__}"}
    return {**named, "Authorization": f"Bearer {hub.token}"} if hub.token else named


def ask(hub: Hub, method: str, path: str, params: Mapping[str, Any] | None = None) -> bytes:
    """The body of the hub's answer; raises what huggingface_hub makes of a refusal."""
    from huggingface_hub import constants, get_session, hf_raise_for_status

    answer = get_session().request(
        method,
        hub.endpoint + path,
        params=dict(params or {}),
        headers=headers(hub),
        timeout=constants.HF_HUB_ETAG_TIMEOUT,
        follow_redirects=method != "HEAD",  # where a file lies behind the hub does not matter to the question
    )
    hf_raise_for_status(answer)
    return answer.content


def patiently(
    hub: Hub,
    call: Callable[[], T],
    narrate: Callable[[str], None],
    *,
    is_worth_another_try: Callable[[Exception], bool] = is_passing,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """The result of `call`, tried again where that may help, as often as the hub's `waits_s` allow."""
    for wait_s in hub.waits_s:
        try:
            return call()
        except Exception as error:
            if not is_worth_another_try(error):
                raise
            wait_s = max(wait_s, asked_wait_s(error))
            if wait_s > LONGEST_WAIT_S:
                raise
            narrate(f"{reason(error)}; trying again in {wait_s:.0f} s")
            sleep(wait_s)
    return call()


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
