"""What a model thinks before it answers, told apart by vLLM's own parsers. Works on vLLM's objects without importing vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speccli.engine import Request, Split


class Parsers:
    """Makes a parser for each request, as vLLM's server does."""

    def __init__(self, parser_class: Any, request_class: Any, tokenizer: Any, model_config: Any) -> None:
        self._parser_class = parser_class
        self._request_class = request_class
        self._tokenizer = tokenizer
        self._model_config = model_config

    def reading(self, request: Request, template: dict[str, Any]) -> Reading:
        """`template` is what the chat template is told: some models think only where it says so."""
        parser = self._parser_class(self._tokenizer, chat_template_kwargs=template, model_config=self._model_config)
        asked = parser.adjust_request(self._request_class(messages=[], **_given(request.sampling)))
        return Reading(parser, asked, self._tokenizer.get_vocab())


class Reading:
    """Tells the reasoning and the answer of one request apart, as its text comes."""

    def __init__(self, parser: Any, asked: Any, vocabulary: dict[str, int]) -> None:
        self._parser = parser
        self._asked = asked
        inner = parser.reasoning_parser
        self._start: str = (inner and inner.reasoning_start_str) or ""
        marks = (self._start, (inner and inner.reasoning_end_str) or "")
        self._marks = {vocabulary[mark]: mark for mark in marks if mark in vocabulary}
        self._has_begun = False
        self._text = ""
        self._token_ids: list[int] = []

    @property
    def sampling(self) -> dict[str, Any]:
        """What the parser needs: some read the special tokens, some change the structure that was asked for."""
        return _given(self._asked)

    def split(self, completion: Any, prompt_token_ids: Sequence[int]) -> Split:
        """What this output says. Raises whatever the parser raises."""
        self._text += completion.text
        self._token_ids += completion.token_ids
        is_last = completion.finish_reason is not None
        early = self._without_text()
        if early and not is_last:
            return Split()
        token_ids = [one for one in self._token_ids if one not in early]
        text, self._text, self._token_ids = self._text, "", []
        told = self._parser.parse_delta(text, token_ids, self._asked, list(prompt_token_ids), finished=is_last)
        return Split() if told is None else Split(self._unmarked(told.reasoning or ""), told.content or "")

    def _without_text(self) -> set[int]:
        """Marks whose text is still held back, because it may begin a stop string: the plainest parsers miss them then."""
        return {one for one, mark in self._marks.items() if one in self._token_ids and mark not in self._text}

    def _unmarked(self, reasoning: str) -> str:
        """Without the first mark, which the plainest parsers leave in where a step brings it with other tokens."""
        if self._has_begun or not self._start or not reasoning.strip():
            return reasoning
        self._has_begun = True
        before, mark, after = reasoning.partition(self._start)
        return after if mark and not before.strip() else reasoning


def _given(asked: Any) -> dict[str, Any]:
    """What a parser may change, of our own sampling or of vLLM's request, where it says something."""
    wanted = {
        "skip_special_tokens": asked.skip_special_tokens,
        "structured_outputs": asked.structured_outputs,
    }
    return {key: value for key, value in wanted.items() if value is not None}
