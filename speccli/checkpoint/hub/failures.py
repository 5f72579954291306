"""What went wrong between here and the hub, as one message that ends in what to do."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from speccli.errors import CheckpointError, MachineError, SpeccliError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

PASSING = {408, 429, 500, 502, 503, 504}
AGAIN = "run the same command again: it goes on from what has come"


class NotTheHub(Exception):
    """Something answered, but not as a hub does."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The question that failed."""

    endpoint: str
    repo: str
    revision: str
    has_token: bool
    cache: str
    file: str = ""
    nearest_revisions: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        return f"{self.endpoint}/{self.repo}"

    @property
    def subject(self) -> str:
        return f"{self.file} of {self.repo}" if self.file else self.repo


def expected() -> tuple[type[Exception], ...]:
    """What may go wrong on the way. The first is the base of httpx or httpx2, whichever the installed client uses."""
    from huggingface_hub.errors import HfHubHTTPError

    return (HfHubHTTPError.__bases__[0], OSError, NotTheHub)


def is_passing(error: Exception) -> bool:
    """The hub's own trouble, which may be over in a second."""
    response = getattr(error, "response", None)
    return response is not None and response.status_code in PASSING


def is_cut(error: Exception) -> bool:
    """No whole answer came: the connection was not made, or did not last."""
    return isinstance(error, expected()[0]) and getattr(error, "response", None) is None


def is_unreachable(error: Exception) -> bool:
    """Nobody said no: a copy from before may stand in."""
    return is_passing(error) or is_cut(error) or isinstance(error, NotTheHub)


def asked_wait_s(error: Exception) -> float:
    """How long the hub asks to be left alone."""
    from huggingface_hub.utils import parse_ratelimit_headers

    answered: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    limit = parse_ratelimit_headers(answered)
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    after = answered.get("Retry-After", "")
    return float(after) if re.fullmatch(r"\d+", after) else 0.0


def explained(error: Exception, asked: Asked) -> SpeccliError:
    from huggingface_hub import errors

    match error:
        case errors.GatedRepoError():
            return _gated(error.server_message or "", asked)
        case errors.RepositoryNotFoundError():
            return _no_repository(asked)
        case errors.RevisionNotFoundError():
            return _no_revision(asked)
        case errors.HfHubHTTPError():
            return _refused(error, asked)
        case NotTheHub():
            return CheckpointError(
                f"{asked.endpoint} answered {error}, not {asked.subject}: it is no hub, or a proxy stands before it",
                "open the address in a browser, and check HF_ENDPOINT and HTTPS_PROXY; then run the same command again",
            )
        case OSError():
            return _not_written(error, asked)
    return _cut(error, asked) if asked.file else _unreachable(error, asked)


def _gated(said: str, asked: Asked) -> CheckpointError:
    if not asked.has_token:
        return CheckpointError(
            f"{asked.repo} is gated, and no token says who you are",
            f"accept its licence on {asked.page}, then `hf auth login` (or HF_TOKEN=…), and run the same command again",
        )
    if "fine-grained" in said:
        return CheckpointError(
            f"{asked.repo} is gated, and your token may not read gated repositories",
            f"allow it to on {asked.endpoint}/settings/tokens, then run the same command again",
        )
    if "awaiting" in said:
        return CheckpointError(
            f"{asked.repo} is gated, and its owners have not yet answered your request",
            f"run the same command again once {asked.page} says that you have access",
        )
    return CheckpointError(
        f"{asked.repo} is gated, and the account of your token has no access to it",
        f"accept its licence on {asked.page} with the account that `hf auth whoami` names, then run the same command again",
    )


def _no_repository(asked: Asked) -> CheckpointError:
    if asked.has_token:
        return CheckpointError(
            f"the hub shows no repository {asked.repo} to your token",
            "check the spelling; if it is private, `hf auth whoami` must name an account that may read it",
        )
    return CheckpointError(
        f"the hub shows no repository {asked.repo}, at least not without a token",
        "check the spelling; if it is private, `hf auth login` first",
    )


def _no_revision(asked: Asked) -> CheckpointError:
    nearest = ", ".join(f"`{asked.repo}@{name}`" for name in asked.nearest_revisions)
    return CheckpointError(
        f"{asked.repo} has no revision {asked.revision!r}",
        f"name one that it has: {nearest}" if nearest else f"name one that {asked.page}/tree/main shows",
    )


def _refused(error: HfHubHTTPError, asked: Asked) -> CheckpointError:
    status = error.response.status_code
    said = (error.server_message or "").partition("\n")[0]
    answer = f"{status} ({said})" if said else str(status)
    if status == 401 and not asked.has_token:  # as mirrors answer that leave out the hub's own code
        return _no_repository(asked)
    if status == 401:
        return CheckpointError(
            f"the hub does not accept your token: {answer}",
            f"`hf auth login` with one of {asked.endpoint}/settings/tokens; public repositories need none",
        )
    if status == 429:
        return CheckpointError(
            f"the hub has had too many questions: {answer}",
            f"wait {_patience(error)}, then {AGAIN}"
            + ("" if asked.has_token else "; `hf auth login` raises the limit"),
        )
    if status in PASSING:
        return CheckpointError(f"the hub has trouble of its own with {asked.subject}: {answer}", f"later, {AGAIN}")
    return CheckpointError(
        f"{asked.endpoint} refuses {asked.subject}: {answer}",
        f"look at {asked.page} in a browser; if it opens there, check HF_ENDPOINT and HTTPS_PROXY",
    )


def _patience(error: HfHubHTTPError) -> str:
    wait_s = asked_wait_s(error)
    return f"{wait_s:.0f} s" if wait_s else "some minutes"


def _unreachable(error: Exception, asked: Asked) -> CheckpointError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CheckpointError(
            f"{asked.endpoint} shows a certificate that this machine does not trust: {reason(error)}",
            "behind a proxy that reads TLS, set SSL_CERT_FILE to its certificate; then run the same command again",
        )
    return CheckpointError(
        f"{asked.endpoint} cannot be reached: {reason(error)}",
        "check the network, HF_ENDPOINT and HTTPS_PROXY, then run the same command again; "
        "`--target smollm2-135m` needs no hub",
    )


def _cut(error: Exception, asked: Asked) -> CheckpointError:
    return CheckpointError(f"the connection was cut while {asked.subject} came: {reason(error)}", AGAIN)


def _not_written(error: OSError, asked: Asked) -> MachineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MachineError(
            f"the disk of {asked.cache} became full while {asked.subject} came",
            f"free some space, then {AGAIN}; or set HF_HUB_CACHE to a folder on another disk",
        )
    return MachineError(
        f"{asked.subject} cannot be kept in {asked.cache}: {error}",
        "set HF_HUB_CACHE to a folder that you can write",
    )


def reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
