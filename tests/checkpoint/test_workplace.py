"""What the makers of folders in the cache have in common; the rest is seen in test_wheel.py and test_convert.py."""

from pathlib import Path

from speccli.checkpoint import workplace


def test_what_another_process_has_made_meanwhile_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "made"
    filled: list[Path] = []
    assert not workplace.make(folder, filled.append, is_whole=lambda: True, needed_bytes=0, narrate=lambda line: None)
    assert filled == []


def test_the_parent_of_the_folder_to_fill_is_there_for_what_is_gone_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "made"

    def fill(made: Path) -> None:
        (made.parent / "scratch").write_text("gone")
        (made / "kept").write_text("kept")

    assert workplace.make(folder, fill, is_whole=lambda: False, needed_bytes=0, narrate=lambda line: None)
    assert (folder / "kept").read_text() == "kept"
    assert sorted(path.name for path in folder.parent.iterdir()) == [".lock", "made"]
