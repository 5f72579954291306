"""The file that keeps results: whole at any moment, and never of mixed settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from speccli import paths
from speccli.bench import results
from speccli.bench.cells import Cell
from speccli.bench.results import KEPT_FILES, place, read, require_same, save
from speccli.errors import MachineError, UsageError
from tests.bench import example


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    kept = results.new({"dtype": "float32", "engine.max_num_seqs": 4})
    kept.ways["plain"] = {}
    for result in example.results(10.0, 11.0, acceptance=example.ACCEPTED):
        kept.add("plain", result)
    save(kept, tmp_path / "bench.json")
    assert read(tmp_path / "bench.json") == kept
    assert read(tmp_path / "bench.json").cells_of("plain") == {Cell(1, 1), Cell(2, 1)}
    assert [file.name for file in tmp_path.iterdir()] == ["bench.json"]


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(UsageError, match="holds no results"):
        read(tmp_path / "other.json")


def test_a_named_file_that_exists_is_neither_replaced_nor_continued_unasked(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    assert place(file, resume=False, overwrite=False) == file
    assert place(file, resume=True, overwrite=False) == file
    file.write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        place(file, resume=False, overwrite=False)
    assert place(file, resume=True, overwrite=False) == file
    assert place(file, resume=False, overwrite=True) == file


def test_going_on_and_beginning_anew_exclude_each_other(tmp_path: Path) -> None:
    for output in (tmp_path / "x.json", None):
        with pytest.raises(UsageError, match="--resume and --overwrite contradict each other"):
            place(output, resume=True, overwrite=True)


def test_a_state_folder_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(MachineError, match=r"cannot make .*file/speccli/bench: Not a directory"):
        place(None, resume=False, overwrite=False)


def test_without_a_name_results_go_to_the_state_folder_and_the_newest_is_continued() -> None:
    with pytest.raises(UsageError, match="no bench to go on with"):
        place(None, resume=True, overwrite=False)
    fresh = place(None, resume=False, overwrite=False)
    assert fresh.parent == paths.state_dir() / "bench"
    fresh.write_text("{}")
    (fresh.parent / "20200101-000000-1.json").write_text("{}")
    assert place(None, resume=True, overwrite=False) == fresh


def test_old_files_of_the_state_folder_are_deleted() -> None:
    folder = place(None, resume=False, overwrite=False).parent
    for number in range(KEPT_FILES + 3):
        (folder / f"2020010{number // 10}-00000{number % 10}-1.json").write_text("{}")
    place(None, resume=False, overwrite=False)
    assert len(list(folder.iterdir())) == KEPT_FILES - 1


def test_other_settings_are_refused_and_the_difference_is_named(tmp_path: Path) -> None:
    kept = {"dtype": "float32", "engine.max_num_seqs": 4, "stop": ("a", "b")}
    require_same(kept, {**kept, "stop": ["a", "b"]}, "", tmp_path)
    with pytest.raises(UsageError) as caught:
        require_same(kept, {"dtype": "bfloat16", "stop": ("a", "b"), "seed": 7}, " of ngram", tmp_path / "x.json")
    assert caught.value.message == (
        f"{tmp_path}/x.json holds results of other settings of ngram: dtype was float32 and is bfloat16; "
        "engine.max_num_seqs (the largest of --batch-sizes) was 4 and is not set; seed was not set and is 7"
    )
