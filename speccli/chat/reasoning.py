"""Reasoning: what a model thinks before it answers, told apart while the text streams."""

from __future__ import annotations

from typing import Literal

import msgspec

from speccli.engine import Split, Step

Kind = Literal["reasoning", "answer"]

MARKS = {"<think>": "</think>", "[THINK]": "[/THINK]", "<thought>": "</thought>"}
"""How models begin and end it. A mark counts only at the start: later it is text, as in an answer about such marks."""


class Part(msgspec.Struct, frozen=True):
    kind: Kind
    text: str


class Splitter:
    """Takes text as it comes and gives it in parts; holds back what may become a mark."""

    def __init__(self, opens_reasoning: bool = False) -> None:
        self._end = "</think>" if opens_reasoning else None
        self._held = ""
        self._state: Literal["start", "reasoning", "answer"] = "reasoning" if opens_reasoning else "start"
        self._fresh = True
        self._follows_reasoning = False

    def add(self, step: Step) -> list[Part]:
        """The parts of a step: as the engine told them apart, else by the marks."""
        return self.feed(step.text) if step.split is None else self._told(step.split)

    def feed(self, text: str) -> list[Part]:
        """The parts that are sure by now."""
        self._held += text
        return [part for part in self._parts() if part.text]

    def finish(self) -> list[Part]:
        """What was held back, at the end."""
        kind: Kind = "reasoning" if self._state == "reasoning" else "answer"
        rest, self._held = self._held, ""
        return [Part(kind, rest)] if rest else []

    def _told(self, split: Split) -> list[Part]:
        """Without the blank lines between reasoning and answer, here too."""
        follows = self._follows_reasoning or bool(split.reasoning)
        answer = split.answer.lstrip("\n") if follows else split.answer
        self._follows_reasoning = follows and not answer
        return [part for part in (Part("reasoning", split.reasoning), Part("answer", answer)) if part.text]

    def _parts(self) -> list[Part]:
        parts: list[Part] = []
        if self._state == "start":
            self._begin()
        if self._state == "reasoning":
            parts += self._reasoning()
        if self._state == "answer":
            parts.append(Part("answer", self._trimmed()))
        return parts

    def _begin(self) -> None:
        seen = self._held.lstrip()
        for start, end in MARKS.items():
            if seen.startswith(start):
                self._state, self._end, self._held = "reasoning", end, seen.removeprefix(start)
                return
        if seen and not any(start.startswith(seen) for start in MARKS):
            self._state, self._fresh = "answer", False

    def _reasoning(self) -> list[Part]:
        end = self._end or ""
        before, mark, after = self._held.partition(end)
        if mark:
            self._state, self._held, self._fresh = "answer", after, True
            return [Part("reasoning", before)]
        sure = len(self._held) - _overlap(self._held, end)
        told, self._held = self._held[:sure], self._held[sure:]
        return [Part("reasoning", told)]

    def _trimmed(self) -> str:
        """The answer; without the blank lines between it and the reasoning."""
        text = self._held.lstrip("\n") if self._fresh else self._held
        self._fresh = self._fresh and not text
        self._held = ""
        return text


def _overlap(text: str, mark: str) -> int:
    """How many of the last characters may be the beginning of the mark."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if mark.startswith(text[-size:])), 0)


def split(text: str, opens_reasoning: bool = False) -> tuple[str, str]:
    """Reasoning and answer of a whole text."""
    splitter = Splitter(opens_reasoning)
    parts = [*splitter.feed(text), *splitter.finish()]
    reasoning = "".join(part.text for part in parts if part.kind == "reasoning")
    return reasoning.strip(), "".join(part.text for part in parts if part.kind == "answer")
