"""A tiny target, and shards that it wrote itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import tiny
from training.conversation import ANSWER, USER, Plan, Turn


def plan(index: int) -> Plan:
    """Short: a user turn sampled after two letters, an answer, and every second time another round."""
    turns = (Turn(USER, "Hi", 6, 1.0), Turn(ANSWER, limit=12, temperature=float(index % 3 == 0)))
    return Plan(index, 5, "chat", turns * (1 + index % 2), "Be brief.")


@pytest.fixture(scope="session")
def target_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.llama(tmp_path_factory.mktemp("training") / "target", num_hidden_layers=8)


@pytest.fixture(scope="session")
def encode(target_folder: Path) -> Callable[[str], list[int]]:
    from training.generate import encoder

    return encoder(target_folder)


@pytest.fixture(scope="session")
def data(target_folder: Path, encode: Callable[[str], list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from training import generate
    from training.target import load

    folder = tmp_path_factory.mktemp("training") / "data"
    records = generate.generated(load(target_folder), encode, [plan(i) for i in range(12)], rows=5)
    generate.write_shards(records, folder, "train", size=4)
    return folder
