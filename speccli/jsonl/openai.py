"""Lines of OpenAI's Batch API, in the keys of speccli's own form."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from speccli.jsonl.line import Line, Wrong

CHAT_URL = "/v1/chat/completions"
COMPLETIONS_URL = "/v1/completions"

TEMPLATE_KEYS = ("add_generation_prompt", "continue_final_message")
BODY_KEYS = ("max_completion_tokens", "top_logprobs", *TEMPLATE_KEYS)
"""Keys that only a body has."""
WITHOUT_EFFECT = (
    "model", "user", "store", "service_tier", "safety_identifier", "prompt_cache_key", "stream", "stream_options", "echo", "best_of", "suffix",
)  # fmt: skip
"""Keys of a body that say nothing about the text: speccli answers with the target of the command."""
REFUSED_UNLESS_EMPTY = {"stream": (False, None), "echo": (False, None), "suffix": (None, ""), "best_of": (None, 1)}


class OpenAILine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of an OpenAI Batch file."""

    custom_id: str
    url: Literal["/v1/chat/completions", "/v1/completions"]
    body: dict[str, Any]
    method: Literal["POST"] = "POST"


def own_form(line: OpenAILine) -> tuple[Line, str | None]:
    """The line in speccli's own form, and the bare prompt where it asks for a completion. Raises `Wrong`."""
    body = _body(line)
    prompt = body.pop("prompt", None)
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    wanted = msgspec.convert({**body, "custom_id": line.custom_id}, Line)
    if wanted.id is not None:
        raise Wrong("the body has no `id`")
    if line.url == CHAT_URL:
        if prompt is not None or wanted.messages is None:
            raise Wrong("the body needs `messages`, and no `prompt`")
        return wanted, None
    if not isinstance(prompt, str) or wanted.messages is not None:
        raise Wrong("the body needs `prompt`, as one string")
    if not prompt:
        raise Wrong("the prompt is empty")
    return wanted, prompt


def _body(line: OpenAILine) -> dict[str, Any]:
    """The body in the keys of speccli's own form. What is null is left out, what has no effect is, too."""
    given = {key: value for key, value in line.body.items() if value is not None}
    for key, harmless in REFUSED_UNLESS_EMPTY.items():
        if given.get(key) not in harmless:
            raise Wrong(f"`{key}` is not possible in a batch")
    body = {key: value for key, value in given.items() if key not in WITHOUT_EFFECT}
    if "max_completion_tokens" in body:
        body["max_tokens"] = body.pop("max_completion_tokens")
    if line.url == CHAT_URL:
        asked, top = body.pop("logprobs", False), body.pop("top_logprobs", 0)
        if asked not in (True, False):
            raise Wrong("`logprobs` must be true or false; `top_logprobs` says how many")
        if asked:
            body["logprobs"] = top
        own = body.get("chat_template_kwargs", {})
        for_template = {key: body.pop(key) for key in TEMPLATE_KEYS if key in body}
        if for_template and isinstance(own, dict):
            body["chat_template_kwargs"] = {**own, **for_template}
    return body
