"""/set: values, their limits, where they come from, and what speculation forbids."""

import pytest

from speccli.chat.settings import HELP, NAMES, ChatSettings, name_and_value, values_of
from speccli.errors import UsageError
from speccli.profile import Profile, Sampling, Settings

NOTHING = ChatSettings()


def rows(settings: ChatSettings, profile: Profile) -> dict[str, tuple[str, str]]:
    return {row.name: (row.value, row.source) for row in settings.rows(profile)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.7", 0.7),
        ("temperature", "0", 0.0),
        ("top-p", "0.9", 0.9),
        ("top_k", "-1", -1),
        ("max_tokens", "64", 64),
        ("seed", "7", 7),
        ("stop", "END", ("END",)),
        ("stop", '"\\n\\n"', ("\n\n",)),
        ("stop", '["a", "b"]', ("a", "b")),
        ("ignore_eos", "on", True),
        ("presence_penalty", "-2", -2.0),
    ],
)
def test_sampling_is_set(name: str, text: str, value: object) -> None:
    sampling = NOTHING.with_value(name, text, speculates=True).sampling
    assert getattr(sampling, name.replace("-", "_")) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("temperature", "hot", "temperature cannot be 'hot': expected `float | null`, got `str`"),
        ("temperature", "-1", "temperature cannot be '-1': expected `float` >= 0.0"),
        ("top_p", "1.5", "top_p cannot be '1.5': expected `float` <= 1.0"),
        ("max_tokens", "0", "max_tokens cannot be '0': expected `int` >= 1"),
        ("max_tokens", "1.5", "max_tokens cannot be '1.5': expected `int | null`, got `str`"),
        ("seed", str(2**64), f"seed cannot be '{2**64}': expected `int` <= 9223372036854775807"),
        ("vi", "perhaps", "vi cannot be 'perhaps': expected `bool`, got `str`"),
        ("reasoning", "loud", "reasoning cannot be 'loud': invalid enum value 'loud'"),
        (
            "logit_bias",
            "{",
            "logit_bias is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("temprature", "1", "no setting is called 'temprature'"),
        ("system", "Be brief.", "the system prompt is no setting"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        NOTHING.with_value(name, text, speculates=False)
    assert caught.value.message.lower() == message.lower()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("stop", ("stop", "")),
        ("stop a=b", ("stop", "a=b")),
        ("stop=a b", ("stop", "a b")),
        ("stop = a=b", ("stop", "a=b")),
        ("stop=", ("stop", "")),
        ('stop "="', ("stop", '"="')),
    ],
)
def test_a_value_may_hold_blanks_and_equals_signs(argument: str, expected: tuple[str, str]) -> None:
    assert name_and_value(argument) == expected


@pytest.mark.parametrize(("name", "text"), [("min_p", "0.05"), ("logit_bias", '{"42": -100}')])
def test_what_vllm_refuses_under_speculation_is_refused_with_the_reason(name: str, text: str) -> None:
    with pytest.raises(
        UsageError, match=f"{name} cannot be set: vLLM 0.32 does not support it with speculative decoding"
    ):
        NOTHING.with_value(name, text, speculates=True)
    plain = NOTHING.with_value(name, text, speculates=False)
    assert plain.without_refused() == (NOTHING, [name])


def test_min_p_of_zero_is_no_min_p() -> None:
    assert NOTHING.with_value("min_p", "0", speculates=True).sampling == Sampling(min_p=0.0)


def test_default_takes_a_setting_back() -> None:
    hot = NOTHING.with_value("temperature", "2", True).with_value("vi", "on", True)
    assert hot.with_value("temperature", "default", True).with_value("vi", "default", True) == NOTHING


def test_every_setting_says_where_it_comes_from() -> None:
    profile = Profile(Settings(max_tokens=512, seed=3), {"max_tokens": "defaults", "seed": "environment"})
    told = rows(NOTHING.with_value("temperature", "0", True).with_value("markdown", "off", True), profile)
    assert told["temperature"] == ("0.0", "set here")
    assert told["seed"] == ("3", "environment")
    assert told["max_tokens"] == ("512", "defaults")
    assert told["top_p"] == ("", "checkpoint or vLLM")
    assert told["markdown"] == ("off", "set here")
    assert told["vi"] == ("off", "default")
    assert set(told) == set(NAMES) == set(HELP)


def test_choices_are_what_can_be_set() -> None:
    for name in NAMES:
        for value in values_of(name):
            NOTHING.with_value(name, value, speculates=True)
