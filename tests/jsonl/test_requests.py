"""What one line asks for."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from speccli import jsonl
from speccli.engine import Message, Request
from speccli.jsonl import Defaults, Entry, Source
from speccli.profile import Sampling

DATA = Path(__file__).parents[1] / "data" / "batch"
DEFAULTS = Sampling(max_tokens=64, temperature=0.0)


def entries(*lines: str | bytes, system: str | None = None) -> list[Entry]:
    raw = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return list(jsonl.read(jsonl.lines(jsonl.find_inputs(["-"]), io.BytesIO(raw)), Defaults(DEFAULTS, system)))


def request(line: str) -> Request:
    [entry] = entries(line)
    assert entry.request is not None, entry.problem
    return entry.request


def problem(line: str | bytes) -> str:
    bad, good = entries(line, '{"prompt": "Hello"}')
    assert good.request is not None
    assert bad.request is None
    assert bad.problem is not None
    assert bad.problem.kind == "invalid_line"
    return bad.problem.message


def test_a_prompt_becomes_one_user_message() -> None:
    [entry] = entries('{"id": "a", "prompt": "Hello"}')
    assert entry.source == Source("a", "stdin", 1)
    assert entry.request is not None
    assert entry.request.messages == (Message("user", "Hello"),)
    assert entry.request.sampling == DEFAULTS


def test_who_speaks_is_told_to_the_chat_template() -> None:
    from speccli.engine.vllm import conversation

    [entry] = entries(
        '{"messages": [{"role": "user", "name": "Ann", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]}'
    )
    assert entry.request is not None
    assert conversation(entry.request) == [
        {"role": "user", "content": "Hi", "name": "Ann"},
        {"role": "assistant", "content": "Yes?"},
    ]


def test_messages_are_kept_and_the_system_prompt_goes_first_unless_there_is_one() -> None:
    plain, own = entries(
        '{"messages": [{"role": "user", "content": "Hi"}]}',
        '{"messages": [{"role": "system", "content": "Own."}, {"role": "user", "content": "Hi"}]}',
        system="Be brief.",
    )
    assert plain.request is not None
    assert own.request is not None
    assert [message.content for message in plain.request.messages] == ["Be brief.", "Hi"]
    assert [message.content for message in own.request.messages] == ["Own.", "Hi"]


def test_a_line_without_an_id_is_called_by_its_file_and_number() -> None:
    ids = [
        entry.source.id
        for entry in entries('{"prompt": "a"}', '{"id": 7, "prompt": "a"}', '{"custom_id": "x", "prompt": "a"}')
    ]
    assert ids == ["stdin:1", 7, "x"]


def test_sampling_on_the_line_goes_over_the_commands() -> None:
    made = request(
        '{"prompt": "Hello", "max_tokens": 5, "stop": "x", "seed": 3, "logprobs": 2, "bad_words": ["no"], "top_p": 0.5}'
    )
    assert made.sampling == Sampling(
        max_tokens=5, temperature=0.0, stop="x", seed=3, logprobs=2, bad_words=("no",), top_p=0.5
    )


def test_null_is_as_if_it_were_not_there() -> None:
    assert (
        request('{"prompt": "Hello", "stop": null, "n": null, "response_format": null, "id": null}').sampling
        == DEFAULTS
    )


@pytest.mark.parametrize(
    ("given", "structured"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}, {"json": {"type": "object"}}),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, {"choice": ["yes", "no"]}),
    ],
)  # fmt: skip
def test_structured_output_in_openais_words_and_in_vllms(
    given: dict[str, Any], structured: dict[str, Any] | None
) -> None:
    assert request(json.dumps({"prompt": "a", **given})).sampling.structured_outputs == structured


def test_n_becomes_n_requests_with_seeds_of_their_own_as_vllm_makes_them() -> None:
    [seeded, free] = entries('{"prompt": "a", "n": 3, "seed": 7}', '{"prompt": "a", "n": 2}')
    assert [(one.id, one.sampling.seed) for one in seeded.requests()] == [
        ("stdin:1#0", 7),
        ("stdin:1#1", 8),
        ("stdin:1#2", 9),
    ]
    assert [(one.id, one.sampling.seed) for one in free.requests()] == [("stdin:2#0", None), ("stdin:2#1", None)]


def test_what_goes_to_the_chat_template_and_what_comes_back() -> None:
    [entry] = entries(
        '{"prompt": "a", "chat_template_kwargs": {"enable_thinking": false}, "metadata": {"row": [1, null]}}'
    )
    assert entry.request is not None
    assert entry.request.chat_template_kwargs == {"enable_thinking": False}
    assert entry.metadata == {"row": [1, None]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "stdin:1: JSON is malformed"),
        ("[1, 2]", "stdin:1: Expected `object`, got `array`"),
        ('{"prompt": 5}', "stdin:1: Expected `str | null`, got `int` - at `$.prompt`"),
        ('{"promt": "Hello"}', "stdin:1: Object contains unknown field `promt`; did you mean `prompt`?"),
        ('{"prompt": "a", "max_token": 3}', "stdin:1: Object contains unknown field `max_token`; did you mean `max_tokens`?"),
        ("{}", "stdin:1: give either `prompt` or `messages`"),
        ('{"prompt": "a", "messages": []}', "stdin:1: give either `prompt` or `messages`"),
        ('{"prompt": " "}', "stdin:1: the prompt is empty"),
        ('{"messages": []}', "stdin:1: `messages` is empty"),
        ('{"prompt": "a", "n": 0}', "stdin:1: `n` must be at least 1"),
        ('{"prompt": "a", "n": 129}', "stdin:1: `n` must be at least 1 and at most 128"),
        (f'{{"prompt": "a", "n": {2**70}}}', "stdin:1: "),
        ('{"messages": [{"role": "user", "content": ""}]}', "stdin:1: the prompt is empty"),
        ('{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": " "}]}]}', "stdin:1: the prompt is empty"),
        ('{"messages": [{"role": "user", "content": []}]}', "stdin:1: the prompt is empty"),
        ('{"custom_id": "c", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": ""}]}}', "stdin:1: the prompt is empty"),
        ('{"\\u001b[31mred\\u009b\\n": 1}', "stdin:1: Object contains unknown field `\\x1b[31mred\\x9b\\n`"),
        ('{"prompt": "a", "id": ""}', "stdin:1: the id is empty"),
        ('{"prompt": "a", "id": "x", "custom_id": "y"}', "stdin:1: give either `id` or `custom_id`"),
        (b'{"prompt": "\xff\xfe"}', "stdin:1: "),
        ('{"prompt": "\\ud800"}', "stdin:1: "),
        (f'{{"prompt": "a", "seed": {2**64}}}', "stdin:1: Expected `int` <= 9223372036854775807 - at `$.seed`"),
        ('{"prompt": "a", "temperature": "hot"}', "stdin:1: Expected `float | null`, got `str`"),
        ('{"messages": [{"role": "user"}]}', "stdin:1: Object missing required field `content`"),
        ('{"messages": [{"role": "robot", "content": "a"}]}', "stdin:1: Invalid enum value 'robot'"),
        ('{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "stdin:1: only parts of text can be answered, not 'image_url'"),
        ('{"prompt": "a", "response_format": {"type": "xml"}}', "stdin:1: `response_format` must be of type"),
        ('{"prompt": ' + "[" * 5000 + "]" * 5000 + "}", "stdin:1: "),
        ('{"prompt": "a", "metadata": ' + "[" * 100000 + "]" * 100000 + "}", "stdin:1: "),
    ],
)  # fmt: skip
def test_a_bad_line_says_what_is_wrong_and_the_next_is_read(line: str | bytes, said: str) -> None:
    assert problem(line).startswith(said)


def test_a_bad_line_keeps_its_id_where_one_can_be_read() -> None:
    bad, worse = entries('{"id": 7, "promt": "a"}', '{"id": {"x": 1}}')
    assert (bad.source.id, worse.source.id) == (7, "stdin:2")


def test_a_conversation_without_a_users_turn_or_with_one_that_says_something_is_answered() -> None:
    for roles in (["system"], ["user", "user"], ["assistant", "user"]):
        contents = ["", "Go on."] if len(roles) > 1 else ["Write."]
        turns = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
        assert len(request(json.dumps({"messages": turns})).messages) == len(roles)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"id": 7, "promt": "a", "metadata": {"row": 1}}', 7),
        ('{"metadata": {"row": 1}}', "stdin:1"),
        ('{"custom_id": "c", "url": "/v1/completions", "body": {"prompt": 5, "metadata": {"row": 1}}}', "c"),
    ],
)
def test_a_bad_line_keeps_its_metadata(line: str, name: str | int) -> None:
    [bad] = entries(line)
    assert (bad.source.id, bad.metadata) == (name, {"row": 1})


def test_metadata_that_cannot_be_read_costs_a_bad_line_no_id() -> None:
    [bad] = entries(b'{"id": 7, "promt": "a", "metadata": "\xff"}')
    assert (bad.source.id, bad.metadata) == (7, None)


def openai(body: dict[str, Any], url: str = "/v1/chat/completions", **further: Any) -> str:
    return json.dumps({"custom_id": "r", "method": "POST", "url": url, "body": body, **further})


HELLO = [{"role": "user", "content": "Hello"}]


def test_openais_documented_example_is_read() -> None:
    first, second = entries((DATA / "openai.jsonl").read_bytes())
    assert [one.source.id for one in (first, second)] == ["request-1", "request-2"]
    assert first.form == "openai"
    assert first.request is not None
    assert first.request.messages == (
        Message("system", "You are a helpful assistant."), Message("user", "Hello world!"),
    )  # fmt: skip
    assert first.request.sampling == Sampling(max_tokens=1000, temperature=0.0)


def test_openais_names_become_vllms() -> None:
    made = request(
        openai(
            {
                "model": "gpt-4o", "messages": HELLO, "max_completion_tokens": 9, "logprobs": True, "top_logprobs": 3, "user": "u",
                "stream": False, "stop": ["a"], "frequency_penalty": 0.5, "top_k": 4, "add_generation_prompt": False, "continue_final_message": True,
            }
        )
    )  # fmt: skip
    assert made.sampling == Sampling(
        max_tokens=9, temperature=0.0, logprobs=3, stop=("a",), frequency_penalty=0.5, top_k=4
    )
    assert made.chat_template_kwargs == {"add_generation_prompt": False, "continue_final_message": True}


def test_a_completion_is_a_bare_prompt() -> None:
    for prompt in ("Once", ["Once"]):
        made = request(openai({"prompt": prompt, "logprobs": 2}, "/v1/completions"))
        assert (made.prompt, made.messages, made.sampling.logprobs) == ("Once", (), 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (openai({"messages": HELLO}, "/v1/embeddings"), "Invalid enum value '/v1/embeddings'"),
        (openai({"messages": HELLO}, method="GET"), "Invalid enum value 'GET'"),
        (openai({"messages": HELLO, "stream": True}), "`stream` is not possible in a batch"),
        (openai({"messages": HELLO, "tools": []}), "Object contains unknown field `tools`"),
        (openai({"messages": HELLO, "prompt": "x"}), "the body needs `messages`, and no `prompt`"),
        (openai({"messages": HELLO}, "/v1/completions"), "the body needs `prompt`, as one string"),
        (openai({"prompt": ["a", "b"]}, "/v1/completions"), "the body needs `prompt`, as one string"),
        (openai({"messages": HELLO, "logprobs": 3}), "`logprobs` must be true or false; `top_logprobs` says how many"),
        (openai({"messages": HELLO, "chat_template_kwargs": 5, "add_generation_prompt": True}), "Expected `object | null`, got `int`"),
        ('{"custom_id": "e", "url": "/v1/chat/completions", "body": "hi"}', "Expected `object`, got `str` - at `$.body`"),
        ('{"custom_id": 7, "url": "/v1/chat/completions", "body": {}}', "Expected `str`, got `int` - at `$.custom_id`"),
        ('{"url": "/v1/chat/completions", "body": {}}', "Object missing required field `custom_id`"),
    ],
)  # fmt: skip
def test_a_bad_line_of_openais_says_what_is_wrong(line: str, said: str) -> None:
    assert problem(line).removeprefix("stdin:1: ").startswith(said)


def test_a_text_that_names_openais_keys_is_no_line_of_openais() -> None:
    assert request('{"prompt": "body", "metadata": ["body", "url"]}').messages == (Message("user", "body"),)


def test_lines_are_read_one_by_one() -> None:
    def raw() -> Any:
        yield jsonl.RawLine("a", 1, b'{"prompt": "a"}')
        raise AssertionError("read ahead")

    assert next(jsonl.read(raw(), Defaults(DEFAULTS))).request is not None


def test_the_odd_lines_are_each_handled_on_purpose() -> None:
    found = jsonl.find_inputs([str(DATA / "odd.jsonl")])
    read = list(jsonl.read(jsonl.lines(found, io.BytesIO()), Defaults(DEFAULTS)))
    good = [entry.source.id for entry in read if entry.request is not None]
    bad = [entry.source.line for entry in read if entry.problem is not None]
    assert good == ["bom", "separators", "same", "same", 7, "parts", "extra", "last"]
    assert bad == [5, 6, 7, 8, 9, 10, 11, 12, 15, 17, 18, 19, 20, 21, 22]
    assert read[1].request is not None
    assert read[1].request.messages[0].content == "b\u2028c\u2029d\u0085e"
