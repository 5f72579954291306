"""Hours of work in one command, here with next to no work."""

import json
from pathlib import Path

from tests.training import programs


def grow(target: Path, data: Path) -> list[dict[str, object]]:
    """What the curve holds after it."""
    few = ["--rounds", 1, "--conversations", 3, "--updates", 2, "--heldout", 2, "--processes", 1]
    programs.run("grow", "--data", data, "--target", target, *few)
    return [json.loads(line) for line in (data / "curve.jsonl").read_text().splitlines()]


def test_a_round_adds_data_training_a_measurement_and_a_head_and_is_done_once(
    target_folder: Path, tmp_path: Path
) -> None:
    first = grow(target_folder, tmp_path)
    assert [(line["split"], line["updates"]) for line in first] == [("heldout", 2), ("sample", 2)]
    head = tmp_path / "heads" / "eagle3"
    assert sorted(file.name for file in head.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert grow(target_folder, tmp_path) == first
    (head / "README.md").unlink()  # as if it had been killed before the export's end
    assert grow(target_folder, tmp_path) == first
    assert (head / "README.md").exists()
