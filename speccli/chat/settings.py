"""What `/set` can change: how tokens are chosen, and how answers are shown."""

from __future__ import annotations

import difflib
import json
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from speccli.errors import UsageError
from speccli.profile import AtLeastOne, Profile, Sampling, TopK, Whole

Penalty = Annotated[float, Meta(ge=-2, le=2)]

DEFAULT = "default"


class Limits(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The values that vLLM takes."""

    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: TopK | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: AtLeastOne | None = None
    seed: Whole | None = None
    stop: tuple[str, ...] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool | None = None


class Display(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a conversation is shown and typed."""

    markdown: bool = True
    reasoning: Literal["show", "fold", "hide"] = "show"
    stats: bool = True
    vi: bool = False
    when_full: Literal["ask", "drop", "stop"] = "ask"


HELP = {
    "temperature": "0 always takes the likeliest token",
    "top_p": "sample from the likeliest tokens that make up this probability",
    "top_k": "sample from this many likeliest tokens; 0: all",
    "min_p": "drop tokens less likely than this share of the likeliest",
    "max_tokens": "end an answer after this many tokens",
    "seed": "sample the same way each time",
    "stop": 'end at this text; several as JSON: ["a", "b"]',
    "presence_penalty": "above 0: fewer tokens that were there already",
    "frequency_penalty": "the same, by how often",
    "repetition_penalty": "above 1: less repetition, the prompt's included",
    "logit_bias": 'add to single tokens, by id: {"42": -100}',
    "ignore_eos": "go on behind the model's own end, to max_tokens",
    "markdown": "on: format answers; off: plain text",
    "reasoning": "show, fold or hide what a model thinks before it answers",
    "stats": "on: a line of statistics under each answer",
    "vi": "on: vi keys while typing",
    "when_full": "ask, drop the oldest turns, or stop, when the context is full",
}

REFUSED_WITH_SPECULATION = ("min_p", "logit_bias")
UNSUPPORTED = "vLLM 0.32 does not support it with speculative decoding"

SAMPLING = Limits.__struct_fields__
DISPLAY = Display.__struct_fields__
NAMES: tuple[str, ...] = (*SAMPLING, *DISPLAY)


class Row(msgspec.Struct, frozen=True):
    """One setting, for people."""

    name: str
    value: str
    source: str


class ChatSettings(msgspec.Struct, frozen=True):
    """What was set in this conversation. Sampling goes over the profile's."""

    sampling: Sampling = Sampling()
    display: Display = Display()

    def with_value(self, name: str, text: str, speculates: bool) -> ChatSettings:
        """One setting changed. Raises `UsageError` for a value that cannot be meant, or that vLLM refuses."""
        known = named(name)
        if known in DISPLAY:
            default = getattr(Display(), known)
            value = default if text == DEFAULT else _converted(known, text, Display)
            return msgspec.structs.replace(self, display=msgspec.structs.replace(self.display, **{known: value}))
        value = None if text == DEFAULT else _converted(known, text, Limits)
        if speculates and value and known in REFUSED_WITH_SPECULATION:
            raise refused_with_speculation(known)
        return msgspec.structs.replace(self, sampling=msgspec.structs.replace(self.sampling, **{known: value}))

    def without_refused(self) -> tuple[ChatSettings, list[str]]:
        """For an engine that speculates: what it would refuse taken out, and the names of that."""
        gone = [name for name in REFUSED_WITH_SPECULATION if getattr(self.sampling, name)]
        sampling = msgspec.structs.replace(self.sampling, **dict.fromkeys(gone))
        return msgspec.structs.replace(self, sampling=sampling), gone

    def rows(self, profile: Profile) -> list[Row]:
        """Every setting, its value and where that comes from."""
        sampling = [_sampling_row(name, self.sampling, profile) for name in SAMPLING]
        plain = Display()
        display = [
            Row(name, shown(value), "default" if value == getattr(plain, name) else "set here")
            for name, value in msgspec.structs.asdict(self.display).items()
        ]
        return [*sampling, *display]


def name_and_value(argument: str) -> tuple[str, str]:
    """What follows `/set`, parted at the first blank or `=`: the value may hold both."""
    name, *value = re.split(r"\s*=\s*|\s+", argument, maxsplit=1)
    return name, "".join(value).strip()


def named(name: str) -> str:
    """The setting of that name; `-` and `_` are alike."""
    wanted = name.lower().replace("-", "_")
    if wanted in NAMES:
        return wanted
    if wanted in ("system", "system_prompt"):
        raise UsageError("the system prompt is no setting", "/system TEXT sets it")
    nearest = difflib.get_close_matches(wanted, NAMES, n=1)
    hint = f"did you mean `{nearest[0]}`?" if nearest else "/set shows them all"
    raise UsageError(f"no setting is called {name!r}", hint)


def values_of(name: str) -> tuple[str, ...]:
    """What may follow `/set NAME`, where that is a choice."""
    if name in ("markdown", "stats", "vi", "ignore_eos"):
        return ("on", "off")
    if name == "reasoning":
        return ("show", "fold", "hide")
    return ("ask", "drop", "stop") if name == "when_full" else (DEFAULT,)


def shown(value: object) -> str:
    """A value as one types it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def refused_with_speculation(name: str) -> UsageError:
    return UsageError(
        f"{name} cannot be set: {UNSUPPORTED}",
        "/method none goes on without speculation; top_p and top_k work with it",
    )


def _sampling_row(name: str, sampling: Sampling, profile: Profile) -> Row:
    here = getattr(sampling, name)
    if here is not None:
        return Row(name, shown(here), "set here")
    value = getattr(profile.sampling, name, None)
    if value is not None:
        return Row(name, shown(value), profile.sources.get(name, ""))
    return Row(name, "", "checkpoint or vLLM")


def _converted(name: str, text: str, kind: type[Any]) -> Any:
    given = _SWITCH.get(text.lower(), text) if name in _SWITCHES else text
    value: object = _json(name, given) if name in ("stop", "logit_bias") else given
    try:
        return getattr(msgspec.convert({name: value}, kind, strict=False), name)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at ")[0].replace("Expected", "expected")
        raise UsageError(f"{name} cannot be {text!r}: {reason}", f"{name}: {HELP[name]}") from error


_SWITCHES = ("markdown", "stats", "vi", "ignore_eos")
_SWITCH = {"on": "true", "off": "false", "yes": "true", "no": "false"}


def _json(name: str, text: str) -> object:
    """`stop` may be a plain text, with \\n for a line's end."""
    if text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(f"{name} is not JSON: {error}", f"{name}: {HELP[name]}") from error
    return [text.strip('"').replace("\\n", "\n")] if name == "stop" else text
