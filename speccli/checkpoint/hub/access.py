"""How the hub is reached: with huggingface_hub's own settings, session and errors, and for a bounded time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from speccli import __version__
from speccli.checkpoint.hub.failures import asked_wait_s, is_passing, reason
from speccli.errors import UsageError

PROXIES = ("https_proxy", "http_proxy", "all_proxy")

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
    from huggingface_hub import constants

    if not _is_address(constants.ENDPOINT):
        raise UsageError(f"HF_ENDPOINT is {constants.ENDPOINT!r}, which is no address", "write it as https://HOST")
    from huggingface_hub import get_token  # which cannot be had with such an address

    try:
        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read your token in {constants.HF_TOKEN_PATH}: {getattr(error, 'strerror', None) or error}",
            "set HF_HOME to a folder of yours, or HF_TOKEN_PATH to a file that can be read",
        ) from error
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
    from huggingface_hub import constants, hf_raise_for_status

    with _usable_proxies():
        answer = _session().request(
            method,
            hub.endpoint + path,
            params=dict(params or {}),
            headers=headers(hub),
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
            follow_redirects=method != "HEAD",  # where a file lies behind the hub does not matter to the question
        )
    hf_raise_for_status(answer)
    body: bytes = answer.content
    return body


def without_socks(environ: Mapping[str, str]) -> tuple[str, str]:
    """What is wrong with a SOCKS proxy, and what to do."""
    named = [name for name, value in environ.items() if name.lower() in PROXIES and value.lower().startswith("socks")]
    variable = named[0] if named else "ALL_PROXY"
    return (
        f"{variable} names a SOCKS proxy, and Python's package socksio is not installed",
        f"pip install 'httpx[socks]', or unset {variable}",
    )


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


def _session() -> Any:
    """huggingface_hub's own, whose client is made when it is first asked for: with the environment's proxies and certificates."""
    from huggingface_hub import get_session

    try:
        return get_session()
    except ImportError:
        raise
    except Exception as error:
        raise UsageError(
            f"no connection can be made with these proxies and certificates: {reason(error)}",
            "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and SSL_CERT_FILE",
        ) from error


@contextmanager
def _usable_proxies() -> Iterator[None]:
    """A proxy that cannot be asked is an error of the environment; the endpoint has been looked at before."""
    try:
        yield
    except ImportError as error:
        raise UsageError(*without_socks(os.environ)) from error
    except UnicodeError as error:
        raise UsageError(
            "a proxy is named whose host cannot be", "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        ) from error


def _is_address(endpoint: str) -> bool:
    """An address with a host that can be looked up, and a port that is a number."""
    try:
        parts = urlsplit(endpoint)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host)
