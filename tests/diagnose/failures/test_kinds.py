"""Kinds are recognised by what their wordings share, over versions and libraries."""

from __future__ import annotations

import re

import pytest

from speccli.diagnose.failures import UNKNOWN
from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.kind import Kind
from speccli.diagnose.failures.kinds import KINDS
from speccli.diagnose.failures.words import any_of
from tests.diagnose.failures.logs import crashed, diagnose
from tests.diagnose.failures.more_cases import KINDS as MORE

EACH = [(identity, text) for identity, texts in MORE.items() for text in texts]


@pytest.mark.parametrize(("identity", "text"), EACH)
def test_a_kind_is_recognised_by_any_of_its_wordings(identity: str, text: str) -> None:
    assert diagnose(text).findings[0].id == identity


def test_figures_become_settings() -> None:
    settings = {
        identity: diagnose(MORE[identity][0]).findings[0].settings
        for identity in ("crash.max-model-len", "crash.tokens-divide", "crash.heads-divide", "crash.gpu-count")
    }
    assert settings == {
        "crash.max-model-len": {"max_model_len": 32768},
        "crash.tokens-divide": {"num_speculative_tokens": 3},
        "crash.heads-divide": {"tensor_parallel_size": 2},
        "crash.gpu-count": {"tensor_parallel_size": 1},
    }


def test_ids_are_stable_words_and_given_once() -> None:
    ids = [kind.id for kind in KINDS]
    assert len(ids) == len(set(ids))
    assert [identity for identity in ids if not re.fullmatch(r"crash\.[a-z0-9-]+", identity)] == []
    assert UNKNOWN not in ids
    assert "crash.vocabulary" in ids


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_every_kind_can_be_said_without_figures(kind: Kind) -> None:
    """A wording without its figures still gets a cause and a fix."""
    assert kind.cause
    assert kind.fix
    if kind.advise is not None:
        advice = kind.advise({}, Context())
        assert advice.cause or kind.cause
        assert advice.fix or kind.fix
    for said in kind.says:
        words = (said,) if isinstance(said, str) else said
        assert all(word == word.lower() for word in words)


def test_a_process_that_died_without_a_word_is_said_to_have_done_so() -> None:
    found = diagnose(
        "ERROR 11-29 18:50:00 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
    ).findings[0]
    assert found.id == UNKNOWN
    assert "no error of its own" in found.cause
    assert "dmesg" in found.fix
    assert "no error of its own" not in diagnose(crashed("FrobnicationError: x")).findings[0].cause


def test_many_words_are_looked_for_at_once() -> None:
    words = any_of(["kv cache", "kv cache is needed", "a.b", "(x", "kernel"])
    assert [bool(words.search(text)) for text in ("the kv cache is full", "a.b", "axb", "f(x)", "kern", "")] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
