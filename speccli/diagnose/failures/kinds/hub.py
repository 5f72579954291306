"""The hub, the network and the disk."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import gib, number
from speccli.diagnose.failures.kind import GENERAL, Advice, Figures, Kind

_REPOSITORY = (
    r"[Aa]ccess to (?:model|dataset) (?P<repository_name>[\w./-]{1,120}?)\.? is restricted",
    r"/(?P<repository_name>[\w.-]{1,80}/[\w.-]{1,80})/resolve/",
    r"/api/models/(?P<repository_name>[\w.-]{1,80}/[\w.-]{1,80}?)(?:[/\s:?]|$)",
    r"(?:directory specified:|identifier|repo:?) '(?P<repository_name>[^'\s]{1,300})'",
)


def consent(figures: Figures, _context: Context) -> Advice:
    name = figures.get("repository_name")
    return Advice(
        cause=f"{name} is gated, and this account has not been let in" if name else "",
        fix=f"accept the licence on the page of {name or 'the model'}, as the account of the token; a fine-grained token also needs access to gated repositories",
    )


def login(figures: Figures, _context: Context) -> Advice:
    name = figures.get("repository_name")
    return Advice(cause=f"{name} wants to know who asks, and no valid token was sent" if name else "")


def disk(figures: Figures, _context: Context) -> Advice:
    needed, free = number(figures, "needed_gib"), number(figures, "free_gib")
    if needed is None or free is None:
        return Advice()
    return Advice(cause=f"a file of {gib(needed)} was to be written, and {gib(free)} are free")


def absent(figures: Figures, _context: Context) -> Advice:
    name = figures.get("repository_name")
    if not name:
        return Advice()
    return Advice(
        cause=f"{name} is not in the cache, and the hub could not be asked",
        fix=f"on a machine with network: speccli pull --target {name} (or --speculator), then copy the cache; or name a local folder",
    )


KINDS = (
    Kind(
        id="crash.hub-consent",
        title="a gated checkpoint",
        says=(
            ("not in the authorized list",),
            ("awaiting a review",),
            ("gated repo", "403"),
            ("403 client error", "forbidden"),
            ("gatedrepoerror", "403"),
            ("enable access to public gated repositories",),
            ("your request to access", "has been rejected"),
        ),
        figures=_REPOSITORY,
        cause="the checkpoint is gated: the account has not accepted its licence, or the token may not read gated repositories",
        fix="accept the licence on the checkpoint's page, as the account of the token",
        advise=consent,
    ),
    Kind(
        id="crash.hub-login",
        title="not logged in to the hub",
        says=(
            ("gated repo", "401"),
            ("401 client error",),
            ("you must have access to it and be authenticated",),
            ("please log in",),
            ("must be authenticated",),
            ("invalid user token",),
            ("invalid credentials in authorization header",),
            ("restricted", "401"),
        ),
        unless=("repositorynotfounderror",),
        figures=_REPOSITORY,
        cause="the checkpoint is gated or private, and no valid token was sent: a variable may not have reached the container",
        fix="hf auth login, or HF_TOKEN=...; then accept the licence on the checkpoint's page",
        advise=login,
    ),
    Kind(
        id="crash.hub-gated",
        title="a gated checkpoint",
        says=(
            "cannot access gated repo",
            "gatedrepoerror",
            ("trying to access a gated repo",),
            ("access to model", "is restricted"),
        ),
        figures=_REPOSITORY,
        cause="the checkpoint is gated: without a token the hub answers 401, without consent to its licence 403",
        fix="hf auth login, or HF_TOKEN=...; then accept the licence on the checkpoint's page, as the account of the token",
        rank=GENERAL,
    ),
    Kind(
        id="crash.hub-not-found",
        title="no such repository",
        says=(
            "repositorynotfounderror",
            "repository not found for url",
            ("is not a local folder and is not a valid model identifier",),
            "revisionnotfounderror",
            ("revision not found",),
            ("is not a valid git identifier",),
            "remoteentrynotfounderror",
            ("404 client error", "resolve"),
            ("entry not found for url",),
            "hfvalidationerror",
            "repo id must be",
        ),
        unless=("adapter_config", "preprocessor_config", "processor_config", "generation_config", "chat_template"),
        figures=_REPOSITORY,
        cause="the name, or the revision, does not exist on the hub; a private repository looks the same without a token",
        fix="check the spelling (ORG/NAME[@REVISION]); for a private repository, hf auth login",
    ),
    Kind(
        id="crash.disk-full",
        title="the disk is full",
        says=(
            "not enough free disk space",
            ("no space left on device",),
            "errno 28",
            ("disk quota exceeded",),
            "errno 122",
        ),
        unless=("/dev/shm", "shared memory"),
        figures=(
            r"expected file size is: (?P<needed_gib>[\d.]+ ?[KMG]i?B)",
            r"only has (?P<free_gib>[\d.]+ ?[KMG]i?B)",
        ),
        cause="target, speculator, the hub's own cache and the compile cache share a disk, and it is full",
        fix="make room (hf cache prune), or HF_HOME=/a/larger/disk; delete the file that was cut off and run speccli pull",
        advise=disk,
        in_warnings=True,
    ),
    Kind(
        id="crash.hub-offline",
        title="offline, and not in the cache",
        says=(
            "offline mode is enabled",
            "offlinemodeisenabled",
            "localentrynotfounderror",
            ("cannot find the requested files in the disk cache",),
            ("cannot find the requested files in the local cache",),
            ("cannot find an appropriate cached snapshot folder",),
            "outgoing traffic has been disabled",
            ("hf_hub_offline", "cannot"),
        ),
        figures=_REPOSITORY,
        cause="HF_HUB_OFFLINE is set, or there is no network, and the cache does not hold every file",
        fix="speccli pull while there is network, or a local folder as --target and --speculator",
        advise=absent,
    ),
    Kind(
        id="crash.hub-busy",
        title="the hub refuses for now",
        says=(("429 client error",), ("too many requests",), ("503", "service unavailable"), ("502", "bad gateway")),
        figures=_REPOSITORY,
        cause="the hub limits how often it may be asked, or is down",
        fix="wait and try again; with a token the limit is higher: hf auth login",
    ),
    Kind(
        id="crash.network",
        title="the hub cannot be reached",
        says=(
            ("couldn't connect to",),
            ("failed to establish a new connection", "http"),
            ("connection refused", "http"),
            ("remote end closed connection",),
            ("connection reset by peer", "http"),
            ("name or service not known",),
            ("temporary failure in name resolution",),
            ("max retries exceeded with url",),
            ("certificate_verify_failed",),
            ("certificate verify failed",),
            "httpx.connecterror",
            "httpx.connecttimeout",
            "httpx.readtimeout",
            ("read timed out", "http"),
            ("proxyerror",),
            "network is unreachable",
        ),
        figures=_REPOSITORY,
        cause="no connection: no network, a proxy, a name server, or a certificate that is not trusted",
        fix="HTTPS_PROXY, HF_ENDPOINT for a mirror, SSL_CERT_FILE for a company's certificate; or HF_HUB_OFFLINE=1 with what is cached",
        rank=GENERAL,
    ),
    Kind(
        id="crash.no-such-model",
        title="neither a repository nor a folder",
        says=("invalid repository id or local directory", ("can't load the configuration of",)),
        figures=_REPOSITORY,
        cause="vLLM could not get a config.json: offline and not in the cache, gated, misspelt, or a folder without one",
        fix="speccli pull says which of these it is; without network, HF_HUB_OFFLINE=1 and a whole cache, or a local folder",
        rank=GENERAL,
    ),
)
