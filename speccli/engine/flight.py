"""One request in vLLM, and what its outputs say, as steps. Works on vLLM's objects without importing vLLM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from speccli.engine import Merged, Request, Split, Step, TokenLogprob, TopLogprob
from speccli.engine.reasoning import Reading


class Flight:
    """One request in the engine, and how much of its speculation has been told already."""

    def __init__(self, request: Request, internal_id: str, is_truncated: bool, reading: Reading | None = None) -> None:
        self.request_id = request.id
        self.internal_id = internal_id
        self.is_truncated = is_truncated
        self._reading = reading
        self._is_merged = request.stream_interval > 1
        self._num_logprobs = request.sampling.logprobs
        self._num_draft_tokens = 0
        self._histogram: tuple[int, ...] = ()
        self._texts: list[str] | None = None

    def told(self, output: Any, metrics: Any, at_s: float, gave_up: str) -> Step:
        """The step that this output is. `metrics` counts the request's speculation so far (see scheduler.py)."""
        [completion] = output.outputs
        drafted, accepted, merged = self._gained(metrics)
        split, problem = self._split(completion, output.prompt_token_ids or ())
        if problem is None and completion.finish_reason == "error":
            problem = gave_up
        return Step(
            request_id=self.request_id,
            text=completion.text,
            split=split,
            token_ids=tuple(completion.token_ids),
            num_draft_tokens=drafted,
            num_accepted_tokens=accepted,
            num_prompt_tokens=len(output.prompt_token_ids or ()),
            at_s=at_s,
            finish_reason=completion.finish_reason if problem is None else "error",
            error=problem,
            logprobs=() if self._num_logprobs is None else _logprobs(completion, self._num_logprobs),
            merged=merged,
            token_texts=self._new_texts(len(completion.token_ids)),
            is_truncated=self.is_truncated,
        )

    def record_texts(self, detokenizer: Any) -> None:
        """Keep what vLLM's detokenizer makes of each token; it tells only the sum."""
        texts: list[str] = []
        decode = detokenizer.decode_next

        def decode_next(token_id: int) -> str:
            text: str = decode(token_id)
            texts.append(text)
            return text

        detokenizer.decode_next = decode_next
        self._texts = texts

    def _split(self, completion: Any, prompt_token_ids: Sequence[int]) -> tuple[Split | None, str | None]:
        """Or why it cannot be told: a parser that fails ends this answer, and no other."""
        if self._reading is None:
            return None, None
        try:
            return self._reading.split(completion, prompt_token_ids), None
        except Exception as error:  # whatever a parser stumbles on
            what = f"{type(error).__name__}: {error}"
            return None, f"vLLM's reasoning parser failed ({what}); `reasoning_parser: none` does without it"

    def _new_texts(self, count: int) -> tuple[str, ...]:
        """Of the tokens just told; the one that ends an answer is never decoded."""
        if self._texts is None:
            return ()
        new = [*self._texts[:count], *[""] * (count - len(self._texts))]
        self._texts.clear()
        return tuple(new)

    def _gained(self, metrics: Any) -> tuple[int, int, Merged | None]:
        if metrics is None or metrics.num_draft_tokens == self._num_draft_tokens:
            return 0, 0, None
        histogram = tuple(metrics.histogram)
        before = self._histogram or (0,) * len(histogram)
        times = [now - then for now, then in zip(histogram, before, strict=True)]
        drafted = metrics.num_draft_tokens - self._num_draft_tokens
        self._num_draft_tokens, self._histogram = metrics.num_draft_tokens, histogram
        per_pos = tuple(sum(times[position:]) for position in range(1, len(times)))
        return drafted, sum(per_pos), Merged(sum(times), per_pos) if self._is_merged else None


def _logprobs(completion: Any, num_logprobs: int) -> tuple[TokenLogprob, ...]:
    places = zip(completion.token_ids, completion.logprobs or (), strict=False)
    return tuple(_token(place[token_id], place.values(), num_logprobs) for token_id, place in places)


def _token(chosen: Any, place: Iterable[Any], num_logprobs: int) -> TokenLogprob:
    """At each place vLLM gives the chosen token and the likeliest ones; -1 asks for all."""
    ranked = sorted((one for one in place if num_logprobs < 0 or one.rank <= num_logprobs), key=lambda one: one.rank)
    top = tuple(TopLogprob(one.decoded_token or "", one.logprob) for one in ranked)
    return TokenLogprob(chosen.decoded_token or "", chosen.logprob, top)
