"""The prompts of a bench: the user's, and those that come with speccli."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from speccli import paths
from speccli.bench.prompts import built_in, load
from speccli.errors import UsageError
from speccli.profile import Sampling
from tests.bench.example import GREEDY, write


def texts(file: Path) -> set[str]:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {line.get("prompt") or line["messages"][-1]["content"] for line in lines}


def test_the_shipped_prompts_are_four_of_each_category() -> None:
    prompts = load(None, GREEDY, None, None)
    assert Counter(prompt.category for prompt in prompts) == {
        "chat": 4, "code": 4, "summarise": 4, "translate": 4, "maths": 4, "story": 4, "edit": 4,
    }  # fmt: skip
    assert len({prompt.id for prompt in prompts}) == 28
    assert all(prompt.id.startswith(f"{prompt.category}-") for prompt in prompts)


def test_the_shipped_prompts_are_not_those_of_the_demo() -> None:
    assert not texts(built_in()) & texts(paths.profiles_dir() / "prompts" / "sample.jsonl")


def test_prompts_of_a_category_come_together_and_may_be_limited(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '{"id": "a", "category": "x", "prompt": "1"}', '{"category": "y", "prompt": "2"}',
        '{"id": "c", "category": "x", "prompt": "3"}', "", '{"id": 7, "prompt": "4"}',
    )  # fmt: skip
    assert [(one.id, one.category) for one in load(file, GREEDY, None, None)] == [
        ("a", "x"), ("c", "x"), ("2", "y"), ("7", "prompts"),
    ]  # fmt: skip
    assert [one.id for one in load(file, GREEDY, None, 1)] == ["a", "2", "7"]


def test_a_line_may_have_its_own_sampling_and_the_command_gives_the_rest(tmp_path: Path) -> None:
    [one] = load(write(tmp_path, '{"prompt": "1", "max_tokens": 3}'), GREEDY, "Be brief.", None)
    assert one.request.sampling == Sampling(temperature=0.0, max_tokens=3)
    assert [message.role for message in one.request.messages] == ["system", "user"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 2: JSON is malformed"),
        ('{"prompt": "a", "categry": "chat"}', "line 2: Object contains unknown field `categry`"),
        ('{"id": "x"}', "line 2: give either `prompt` or `messages`"),
        ('{"prompt": " "}', "line 2: the prompt is empty"),
        ('{"prompt": "a", "category": "all"}', "line 2: no category can be called 'all'"),
        ('{"prompt": "a", "id": "first"}', "line 2: the id 'first' is there already"),
    ],
)
def test_a_line_that_cannot_be_read_stops_the_bench(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("`", ".")):
        load(write(tmp_path, '{"id": "first", "prompt": "a"}', line), GREEDY, None, None)


def test_a_file_without_prompts_or_without_a_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no prompt"):
        load(write(tmp_path, ""), GREEDY, None, None)
    with pytest.raises(UsageError, match=r"cannot read .*nowhere"):
        load(tmp_path / "nowhere.jsonl", GREEDY, None, None)
