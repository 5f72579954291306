"""The ways that a bench compares: how they are typed, which are offered, and what they are called."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from speccli import hardware, pairing, profile
from speccli.bench.ways import PLAINLY, Way, asked_ways, engine_of, fair, label, offered_ways
from speccli.errors import UsageError
from speccli.pairing import Pairing
from speccli.profile import Settings
from tests.bench.example import plan_of


def resolved(**settings: object) -> Pairing:
    asked = profile.load(Settings(**settings), None, {})  # type: ignore[arg-type]
    return pairing.resolve(asked, hardware.resolve("cpu" if "hardware" not in settings else None, {}))[1]


def settings_of(text: str) -> list[Settings]:
    return [way.settings for way in asked_ways(text)]


def test_a_method_may_have_a_k_and_a_speculator() -> None:
    assert settings_of("ngram, eagle3:3,medusa=./my/heads:2,draft_model=org/name@v1") == [
        Settings(method="ngram"),
        Settings(method="eagle3", num_speculative_tokens=3),
        Settings(method="medusa", speculator="./my/heads", num_speculative_tokens=2),
        Settings(method="draft_model", speculator="org/name@v1"),
    ]


def test_a_speculator_of_a_pairing_and_a_folder_may_stand_alone(tmp_path: Path) -> None:
    assert settings_of(f"itself:2,{tmp_path}") == [
        Settings(speculator="itself", num_speculative_tokens=2),
        Settings(speculator=str(tmp_path)),
    ]


def test_plain_decoding_need_not_be_named() -> None:
    assert asked_ways("plain,none,ngram") == (Way("ngram", Settings(method="ngram")),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ngrm", "no method and no speculator is called 'ngrm'"),
        ("egle=./heads", "no method is called 'egle'"),
        ("ngram,,eagle3", "--methods has an empty part"),
        ("ngram,,", "--methods has an empty part"),
        ("ngram:3,ngram:3", "--methods names ngram:3 twice"),
        ("plain:3", "'plain:3' is plain decoding"),
        ("none=./heads", "'none=./heads' is plain decoding"),
        ("x" * 300, "no method and no speculator is called"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked_ways(text)


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        asked_ways("ngrm")
    assert caught.value.hint == "did you mean `ngram`?"


def test_without_names_each_speculator_of_the_pairing_is_offered_but_the_target_itself() -> None:
    plain = resolved(target="smollm2-135m", method="none")
    ways, itself = offered_ways(plain)
    listed = plain.entry.file.speculators if plain.entry else ()
    assert [way.text for way in ways] == [one.name for one in listed if one.name != "itself"]
    assert ways[0].settings == Settings(method="eagle3", speculator="eagle3", num_speculative_tokens=2)
    assert "ngram" in [way.text for way in ways]
    assert itself == ("itself",)


def test_a_target_that_no_pairing_lists_is_offered_ngram(tmp_path: Path) -> None:
    ways, itself = offered_ways(resolved(target=str(tmp_path), method="none"))
    assert ([way.text for way in ways], itself) == (["ngram"], ())


def test_a_label_names_the_speculator_where_the_method_does_not_tell_it() -> None:
    only = resolved(target="smollm2-135m", method="ngram", num_speculative_tokens=2)
    assert label(only) == "ngram k=2"
    assert label(resolved(target="smollm2-135m", method="none")) == "plain"
    assert label(resolved(target="smollm2-135m", speculator="itself")) == "draft_model k=3"
    own = msgspec.structs.replace(only, method="medusa", speculator="/my/heads", listed=None)
    assert label(own) == "medusa heads k=2"


def test_engines_differ_only_in_how_they_speculate() -> None:
    base = Settings(target="tiny", engine={"block_size": 32})
    plain = engine_of(PLAINLY, base, [1, 16])
    [way] = asked_ways("ngram:3")
    assert plain == Settings(
        target="tiny", method="none", max_num_seqs=16, engine={"block_size": 32, "enable_prefix_caching": False}
    )
    assert engine_of(way, base, [1, 16]) == msgspec.structs.replace(plain, method="ngram", num_speculative_tokens=3)


def test_suffix_decoding_forgets_its_answers_of_the_repeat_before() -> None:
    suffix = fair(plan_of(Settings(method="suffix")))
    assert suffix.engine_arguments["speculative_config"] == {
        "method": "suffix", "num_speculative_tokens": 4, "suffix_decoding_max_cached_requests": 0,
    }  # fmt: skip
    for method in ("none", "ngram"):
        plan = plan_of(Settings(method=method))
        assert fair(plan) == plan
