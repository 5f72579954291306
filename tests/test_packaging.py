"""The wheel carries the profiles and the command."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_carries_every_profile_and_no_test(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path, ROOT],
        check=True,
    )
    [wheel] = tmp_path.glob("speccli-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    profiles = {
        f"speccli/_profiles/{file.relative_to(ROOT / 'profiles')}"
        for file in (ROOT / "profiles").rglob("*")
        if file.is_file()
    }
    assert profiles <= names
    assert "speccli/cli.py" in names
    assert not [name for name in names if name.startswith("tests")]
