"""A line of speccli's own form."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from speccli.profile import Sampling


class TextPart(msgspec.Struct, frozen=True):
    """One part of a message's content."""

    type: str
    text: str | None = None


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a line."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[TextPart, ...]
    name: str | None = None


class Line(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of speccli's own form: `prompt` or `messages`, and whatever else it wants of its own."""

    id: str | int | None = None
    custom_id: str | int | None = None
    """The same as `id`."""
    prompt: str | None = None
    messages: tuple[Turn, ...] | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    metadata: Any = None
    """Whatever it is, the record carries it again."""


class Wrong(Exception):
    """What is wrong with a line."""
