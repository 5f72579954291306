"""Each way to speculate, from a checkpoint in its author's own layout: it loads, drafts what it has learnt, and changes no token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from speccli.engine import Request, Step
from speccli.plan import Plan
from speccli.prepare import prepare
from speccli.profile import Method, Sampling, Settings
from speccli.stats import fold
from tests import tiny
from tests.engine import counting, forked

pytestmark = pytest.mark.engine

TEXTS = ("bdfhjlnprtvxzbd", "BDFHJLNPRTVXZBDF", "From one to the next: 0246802468", "b")
"""They end in even bytes, from where the target counts on."""

Maker = Callable[[Path], Path]


class Case(msgspec.Struct, frozen=True):
    """A method, and who makes its checkpoints."""

    method: Method
    num_speculative_tokens: int
    speculator: Maker | None = None
    target: Maker = counting.llama
    knows: bool = True
    """Whether the speculator has learnt how the target goes on."""


CASES = {
    "draft_model": Case("draft_model", 3, counting.draft_model),
    "eagle as SafeAILab has it": Case("eagle", 2, counting.eagle),
    "eagle3 as SafeAILab has it": Case("eagle3", 3, counting.eagle3),
    "eagle3 as safetensors": Case("eagle3", 3, counting.eagle3_as_safetensors),
    "eagle3 in the speculators format": Case("eagle3", 3, counting.eagle3_of_speculators),
    "medusa as FasterDecoding has it": Case("medusa", 3, counting.medusa),
    "medusa with a token_map": Case("medusa", 3, counting.medusa_with_token_map),
    "dflash as z-lab has it": Case("dflash", 7, tiny.dflash, knows=False),
    "mtp as Baidu has it": Case("mtp", 1, target=counting.mtp),
    "ngram": Case("ngram", 4),
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints and their converted copies. vLLM guesses from a path's words, so it has none of a method's."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def made(folder: Path) -> Callable[[Maker], Path]:
    paths: dict[Maker, Path] = {}

    def make(maker: Maker) -> Path:
        if maker not in paths:
            paths[maker] = maker(folder / str(len(paths)))
        return paths[maker]

    return make


@pytest.fixture
def plan_of(folder: Path, made: Callable[[Maker], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], Plan]:
    monkeypatch.setenv("SPECCLI_CACHE", str(folder / "cache"))

    def plan(case: Case) -> Plan:
        settings = Settings(
            target=str(made(case.target)),
            speculator=str(made(case.speculator)) if case.speculator else None,
            method=case.method,
            num_speculative_tokens=case.num_speculative_tokens or None,
            hardware="cpu",
            dtype="float32",
            enforce_eager=True,
            max_model_len=128,
            max_num_seqs=4,
            kv_cache_gib=1.0,
        )
        return prepare(settings, None, lambda line: None, {})

    return plan


@pytest.fixture(scope="session")
def plainly_decoded() -> dict[Maker, dict[str, list[int]]]:
    """The tokens of each target without speculation, filled by the first test that needs them."""
    return {}


def requests() -> list[Request]:
    greedy = Sampling(temperature=0.0, max_tokens=24)
    return [Request(id=str(i), prompt=text, sampling=greedy) for i, text in enumerate(TEXTS)]


def tokens(steps: list[Step]) -> dict[str, list[int]]:
    answers: dict[str, list[int]] = {}
    for step in steps:
        answers.setdefault(step.request_id, []).extend(step.token_ids)
    return answers


@pytest.mark.parametrize("name", CASES)
def test_a_speculator_in_its_authors_layout_drafts_and_changes_no_token(
    name: str, plan_of: Callable[[Case], Plan], plainly_decoded: dict[Maker, dict[str, list[int]]]
) -> None:
    case = CASES[name]
    if case.target not in plainly_decoded:
        plain = Case("none", 0, target=case.target)
        plainly_decoded[case.target] = tokens(forked.generate(plan_of(plain), requests()))
    plan = plan_of(case)
    ran = forked.run(plan, requests())
    steps = ran.steps
    assert ran.kv_cache_tokens == plan.kv_tokens
    assert tokens(steps) == plainly_decoded[case.target]
    acceptance = fold(steps)
    assert acceptance.num_accepted_tokens < acceptance.num_draft_tokens
    if case.knows:
        assert acceptance.acceptance_rate_per_pos[0] > 0.2  # random weights get 0.02 at most
