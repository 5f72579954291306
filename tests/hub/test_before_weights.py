"""A pair on the hub is looked at before its weights are downloaded: by runs, by pull, by doctor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from speccli.checkpoint.header import FIRST_READ_BYTES
from speccli.checkpoint.hub import Hub
from speccli.commands.pull import pull
from speccli.diagnose import Finding
from speccli.diagnose import hub as hub_facts
from speccli.diagnose import pair as doctor
from speccli.diagnose import sight as sights
from speccli.diagnose.plan import outlook
from speccli.diagnose.sight import look
from speccli.errors import CheckpointError, MachineError, UsageError
from speccli.hardware.shipped import named
from speccli.plan import Plan
from speccli.prepare import choose, prepare
from speccli.profile import Settings, load
from speccli.view import View
from tests import tiny
from tests.hub.server import Fault, HubServer, digest
from tests.tiny_files import write_json

Files = dict[str, bytes]

TARGET, HEAD = "acme/target", "acme/head"


@pytest.fixture(autouse=True)
def here(at: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub that speccli finds by itself."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", at.endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(at.cache))
    monkeypatch.setenv("SPECCLI_CACHE", str(tmp_path / "cache"))
    return at


@pytest.fixture
def put(server: HubServer, tmp_path: Path) -> Callable[..., Files]:
    """Make a tiny checkpoint and put it on the hub."""

    def made(repo: str, make: Callable[..., Path], gated: bool = False, **changes: object) -> Files:
        folder = make(tmp_path / "made" / repo, **changes)
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        server.add(repo, files, gated=gated)
        return files

    return made


def asked(method: str = "eagle3", **more: object) -> Settings:
    told = {"target": TARGET, "speculator": HEAD, "method": method, "num_speculative_tokens": 3, "hardware": "cpu"}
    return Settings(**{**told, **more})  # type: ignore[arg-type]


def run(settings: Settings, said: list[str] | None = None) -> Plan:
    told: list[str] = [] if said is None else said
    return prepare(settings, None, told.append, {})


def sent(server: HubServer, files: Files, ending: str = ".safetensors") -> list[int]:
    """The sizes of the answers that carried weights."""
    stored = tuple(f"/lfs/{digest(name, content)}" for name, content in files.items() if name.endswith(ending))
    return [request.sent_bytes for request in server.requests if request.path.startswith(stored) and request.sent_bytes]


def asked_for(server: HubServer) -> list[str]:
    """The questions to the hub itself, in order, without where its answers point to."""
    api, resolve = "/api/models/", "/resolve/"
    return [
        path.removeprefix(api) if path.startswith(api) else path.rpartition("/")[2]
        for path in server.paths()
        if path.startswith(api) or resolve in path
    ]


# --- A run


def test_a_mismatch_of_sizes_shows_in_the_headers(server: HubServer, put: Callable[..., Files]) -> None:
    target, head = put(TARGET, tiny.llama, hidden_size=128), put(HEAD, tiny.eagle3)
    with pytest.raises(UsageError) as caught:
        run(asked())
    assert caught.value.message.startswith(
        f"{HEAD} takes hidden states of width 64, those of {TARGET} are 128 wide: it was trained for another target"
    )
    assert sent(server, target) == []
    assert sent(server, head) == [min(FIRST_READ_BYTES, len(head["model.safetensors"]))]


def test_a_mismatch_of_vocabularies_shows_in_the_tokenizers(
    server: HubServer, put: Callable[..., Files], tmp_path: Path
) -> None:
    def other_tokenizer(folder: Path) -> Path:
        tiny.draft_model(folder)
        told = json.loads((folder / "tokenizer.json").read_bytes())
        told["model"]["vocab"] = {token: 255 - i for token, i in told["model"]["vocab"].items()}
        write_json(folder / "tokenizer.json", told)
        return folder

    target, draft = put(TARGET, tiny.llama), put(HEAD, other_tokenizer)
    with pytest.raises(UsageError, match=r"256 of 260 ids mean different tokens, the first is 0"):
        run(asked("draft_model"))
    assert sent(server, target) == []
    assert len(sent(server, draft)) == 1


@pytest.mark.parametrize("trouble", ["gated", "missing", "revision"])
def test_a_speculator_that_may_not_be_had_is_told_before_the_target_is_touched(
    trouble: str, server: HubServer, put: Callable[..., Files]
) -> None:
    put(TARGET, tiny.llama)
    if trouble != "missing":
        put(HEAD, tiny.eagle3, gated=trouble == "gated")
    told = {"gated": "is gated", "missing": "shows no repository", "revision": "has no revision 'v9'"}
    with pytest.raises(CheckpointError, match=told[trouble]):
        run(asked(speculator=f"{HEAD}@v9" if trouble == "revision" else HEAD))
    assert [request for request in server.requests if request.sent_bytes] == []


def test_a_pair_that_fits_is_downloaded_once_with_few_questions(
    server: HubServer, put: Callable[..., Files], here: Hub
) -> None:
    target, head = put(TARGET, tiny.llama), put(HEAD, tiny.eagle3)
    said: list[str] = []
    plan = run(asked(), said)
    weights, header = len(head["model.safetensors"]), min(FIRST_READ_BYTES, len(head["model.safetensors"]))
    assert sent(server, target) == [len(target["model.safetensors"])]
    assert sent(server, head) == [header, weights]
    looked, texts = asked_for(server)[:2], asked_for(server)[2:6]
    assert looked == [f"{TARGET}/revision/main", f"{HEAD}/revision/main"]
    assert (sorted(texts[:3]), texts[3:]) == (
        ["config.json", "tokenizer.json", "tokenizer_config.json"],
        ["config.json"],
    )
    assert asked_for(server)[6:] == ["model.safetensors"] * 3
    assert [line.split(":")[0] for line in said] == [f"downloading {repo}" for repo in (TARGET, HEAD, TARGET, HEAD)]
    assert Path(plan.engine_arguments["model"], "model.safetensors").read_bytes() == target["model.safetensors"]
    drafter = Path(plan.engine_arguments["speculative_config"]["model"])
    assert drafter.is_relative_to(here.cache)
    assert (drafter / "model.safetensors").read_bytes() == head["model.safetensors"]


def test_the_second_run_asks_once_for_each_repository_and_plans_the_same(
    server: HubServer, put: Callable[..., Files]
) -> None:
    put(TARGET, tiny.llama)
    put(HEAD, tiny.eagle3)
    first = run(asked())
    server.requests.clear()
    assert run(asked()).engine_arguments == first.engine_arguments
    assert asked_for(server) == [f"{TARGET}/revision/main", f"{HEAD}/revision/main"]


def test_what_is_converted_is_planned_for_by_its_headers_and_made_after_the_download(
    put: Callable[..., Files], tmp_path: Path
) -> None:
    put(TARGET, tiny.llama)
    put(HEAD, tiny.medusa, weights="medusa_lm_head.safetensors")
    plan = run(asked("medusa"))
    drafter = Path(plan.engine_arguments["speculative_config"]["model"])
    assert drafter.parent == tmp_path / "cache" / "converted"
    assert json.loads((drafter / "config.json").read_bytes())["num_heads"] == 3


def test_of_a_target_in_many_files_none_is_read(server: HubServer, put: Callable[..., Files]) -> None:
    put(TARGET, _sharded, hidden_size=128)
    put(HEAD, tiny.eagle3)
    with pytest.raises(UsageError, match="hidden states of width 64"):
        run(asked())
    assert [path for path in server.paths() if "-of-2" in path] == []


def _sharded(folder: Path, **config: object) -> Path:
    weights = (tiny.llama(folder, **config) / "model.safetensors").read_bytes()
    (folder / "model.safetensors").rename(folder / "model-1-of-2.safetensors")
    (folder / "model-2-of-2.safetensors").write_bytes(weights[::-1])
    shards = {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}
    write_json(folder / "model.safetensors.index.json", {"weight_map": shards})
    return folder


def test_a_speculator_in_pickles_is_opened_before_the_target_is_downloaded(
    server: HubServer, put: Callable[..., Files]
) -> None:
    target, head = put(TARGET, tiny.llama, hidden_size=128), put(HEAD, tiny.eagle)
    with pytest.raises(UsageError, match="hidden states of width 64"):
        run(asked("eagle"))
    assert sent(server, target) == []
    assert sent(server, head, ".bin") == [len(head["pytorch_model.bin"])]


def test_what_does_not_fit_is_told_before_the_download(server: HubServer, put: Callable[..., Files]) -> None:
    target, head = put(TARGET, tiny.llama), put(HEAD, tiny.eagle3)
    with pytest.raises(MachineError):
        run(asked(kv_cache_gib=1_000_000.0))
    assert sent(server, target) == []
    assert len(sent(server, head)) == 1


# --- Pull


def test_pull_refuses_what_does_not_go_together(
    server: HubServer, put: Callable[..., Files], capsys: pytest.CaptureFixture[str], here: Hub
) -> None:
    target, head = put(TARGET, tiny.llama, hidden_size=128), put(HEAD, tiny.eagle3)
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="hidden states of width 64"):
            pull(choose(asked(), None, {}), dry_run, False, View(quiet=True), here)
        assert here.cache.exists() != dry_run
    assert capsys.readouterr().out == ""
    assert sent(server, target) == []
    assert len(sent(server, head)) == 2


def test_pull_opens_no_pickle(server: HubServer, put: Callable[..., Files], here: Hub) -> None:
    """That needs torch, which a machine that only downloads may not have."""
    put(TARGET, tiny.llama, hidden_size=128)
    put(HEAD, lambda folder: _with_pickle(tiny.eagle3(folder)))
    pull(choose(asked(), None, {}), False, False, View(quiet=True), here)
    assert (len(server.sent("model.safetensors")), len(server.sent("pytorch_model.bin"))) == (1, 1)


def _with_pickle(folder: Path) -> Path:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"no pickle")
    return folder


# --- Doctor


def found(at: Hub, **answer: object) -> list[Finding]:
    told = hub_facts.Hub(**{"endpoint": at.endpoint, **answer})  # type: ignore[arg-type]
    group = doctor.pair(look(load(asked(), None, {}), named("cpu"), told), "speccli pull")
    return list(group.findings[1:])


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.id) for finding in findings]


def test_doctor_sees_a_mismatch_in_headers_and_downloads_nothing(
    server: HubServer, put: Callable[..., Files], here: Hub
) -> None:
    target, head = put(TARGET, tiny.llama, hidden_size=128), put(HEAD, tiny.eagle3)
    findings = found(here)
    assert told(findings) == [("info", "pair.not-fetched"), ("error", "pair.hidden-size"), ("error", "pair.embedding")]
    assert findings[0].evidence == f"{TARGET} and {HEAD} not fetched yet"
    assert findings[0].cause == "what follows is read from headers on the hub"
    assert not here.cache.exists()
    assert sent(server, target) == []
    assert len(sent(server, head)) == 1
    assert asked_for(server) == [
        f"{TARGET}/revision/main",
        f"{HEAD}/revision/main",
        "config.json",
        "model.safetensors",
        "config.json",
    ]


def test_doctor_says_that_a_good_pair_goes_together(put: Callable[..., Files], here: Hub) -> None:
    put(TARGET, tiny.llama)
    put(HEAD, tiny.eagle3)
    assert told(found(here)) == [("info", "pair.not-fetched"), ("ok", "pair.check")]


@pytest.mark.parametrize(("vocab_size", "severity"), [(320, "info"), (336, "warning")])
def test_doctor_does_not_judge_a_draft_model_whose_tokenizer_it_did_not_read(
    vocab_size: int, severity: str, put: Callable[..., Files], here: Hub
) -> None:
    put(TARGET, tiny.llama)
    put(HEAD, tiny.draft_model, vocab_size=vocab_size)
    settings = asked("draft_model")
    sight = look(load(settings, None, {}), named("cpu"), hub_facts.Hub(endpoint=here.endpoint))
    group = doctor.pair(sight, "speccli pull")
    assert told(list(group.findings[2:])) == [(severity, "pair.tokenizer-unread")]


def test_doctor_tells_what_the_hub_refuses(put: Callable[..., Files], here: Hub) -> None:
    put(TARGET, tiny.llama)
    put(HEAD, tiny.eagle3, gated=True)
    (refused,) = found(here)
    assert (refused.severity, refused.id) == ("error", "pair.checkpoint")
    assert refused.evidence == f"{HEAD} is gated, and no token says who you are"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"offline_because": "--offline"}, "; the hub was not asked: --offline"),
        ({"error": "no answer within 2 s"}, "; {endpoint} cannot be reached: no answer within 2 s"),
    ],
)
def test_doctor_asks_nothing_where_it_may_not_or_nobody_answers(
    answer: dict[str, str], why: str, server: HubServer, here: Hub
) -> None:
    (unseen,) = found(here, **answer)
    assert (unseen.severity, unseen.id) == ("info", "pair.not-fetched")
    assert unseen.cause.endswith(why.format(endpoint=here.endpoint))
    assert server.requests == []


def test_doctor_outlives_a_hub_in_trouble(
    server: HubServer, put: Callable[..., Files], here: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(TARGET, tiny.llama)
    put(HEAD, tiny.eagle3)
    server.fail(Fault("/api/models", status=503, times=1))
    (unseen,) = found(here)
    assert (unseen.severity, unseen.id) == ("info", "pair.not-fetched")
    assert "the hub has trouble of its own with acme/target: 503" in unseen.cause
    assert len(server.requests) == 1
    monkeypatch.setattr(sights, "HUB_TIMEOUT_S", 0.3)
    server.fail(Fault("config.json", stall_after_bytes=0))
    (unseen,) = found(here)
    assert unseen.cause.endswith(f"; {here.endpoint} did not answer within 0.3 s")


def test_doctor_plans_with_what_headers_on_the_hub_tell(
    put: Callable[..., Files], here: Hub, server: HubServer
) -> None:
    target = put(TARGET, tiny.llama)
    profile, told = load(Settings(target=TARGET, method="none"), None, {}), hub_facts.Hub(endpoint=here.endpoint)
    sight = look(profile, named("l4"), told)
    asked_once = len(server.requests)
    doctor.pair(sight, "speccli pull")
    made = outlook(profile, sight, "speccli pull")
    assert made.plan is not None
    assert made.plan.estimate is not None
    assert made.plan.estimate.verdict == "fits"
    assert made.plan.target.weight_bytes == len(target["model.safetensors"])
    assert max(sent(server, target), default=0) <= FIRST_READ_BYTES
    assert len(server.requests) == asked_once
    assert outlook(profile, look(profile, named("l4")), "speccli pull").plan is None
