"""Lines in, records out."""

import io

import pytest

from speccli import jsonl
from speccli.engine import Message
from speccli.errors import UsageError
from speccli.profile import Sampling

DEFAULTS = Sampling(max_tokens=64, temperature=0.0)


def entries(*lines: str | bytes, system: str | None = None) -> list[jsonl.Entry]:
    raw = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return list(jsonl.read(io.BytesIO(raw), DEFAULTS, system))


def test_a_prompt_becomes_one_user_message() -> None:
    [entry] = entries('{"id": "a", "prompt": "Hello"}')
    assert entry.source == jsonl.Source("a", 1)
    assert entry.request is not None
    assert entry.request.messages == (Message("user", "Hello"),)
    assert entry.request.sampling == DEFAULTS


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


def test_sampling_on_the_line_goes_over_the_commands() -> None:
    [entry] = entries('{"prompt": "Hello", "max_tokens": 5, "stop": ["x"]}')
    assert entry.request is not None
    assert entry.request.sampling == Sampling(max_tokens=5, temperature=0.0, stop=("x",))


def test_blank_lines_crlf_a_bom_and_line_separators_in_strings_are_no_trouble() -> None:
    first, second = entries(b"\xef\xbb\xbf" + b'{"prompt": "a"}\r', "", "   ", '{"prompt": "b\u2028c"}')
    assert first.request is not None
    assert second.request is not None
    assert second.source.line == 4
    assert second.request.messages[0].content == "b\u2028c"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "line 1: "),
        ("[1, 2]", "line 1: Expected `object`"),
        ('{"prompt": 5}', "line 1: Expected `str"),
        ('{"promt": "Hello"}', "line 1: Object contains unknown field `promt`"),
        ("{}", "line 1: give either `prompt` or `messages`"),
        ('{"prompt": "a", "messages": []}', "line 1: give either `prompt` or `messages`"),
        ('{"prompt": ""}', "line 1: the prompt is empty"),
        ('{"messages": []}', "line 1: the prompt is empty"),
        (b'{"prompt": "\xff\xfe"}', "line 1: "),
        ('{"prompt": "a", "temperature": "hot"}', "line 1: Expected `float"),
        ('{"messages": [{"role": "user"}]}', "line 1: Object missing required field `content`"),
    ],
)
def test_a_bad_line_is_an_error_of_its_own_and_the_next_is_read(line: str | bytes, said: str) -> None:
    bad, good = entries(line, '{"prompt": "Hello"}')
    assert bad.request is None
    assert (bad.error or "").startswith(said)
    assert good.request is not None


def test_a_bad_line_keeps_its_id_where_one_can_be_read() -> None:
    bad, worse = entries('{"id": 7, "promt": "a"}', '{"id": {"x": 1}}')
    assert (bad.source.id, worse.source.id) == (7, None)


def test_lines_are_read_one_by_one() -> None:
    def lines() -> object:
        yield b'{"prompt": "a"}'
        raise AssertionError("read ahead")

    assert next(jsonl.read(lines(), DEFAULTS, None)).request is not None  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read nowhere\.jsonl: No such file"):
        jsonl.open_input("nowhere.jsonl", io.BytesIO())
