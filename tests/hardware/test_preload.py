"""Where Intel's OpenMP and tcmalloc are found."""

from pathlib import Path

from speccli.hardware.preload import find_openmp, find_tcmalloc


def touch(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def test_openmp_lies_where_its_wheel_puts_it(tmp_path: Path) -> None:
    assert find_openmp(tmp_path) is None
    file = touch(tmp_path / "lib/libiomp5.so")
    assert find_openmp(tmp_path) == file


def test_the_tcmalloc_of_vllm_comes_before_the_systems(tmp_path: Path) -> None:
    vllm, root = tmp_path / "vllm", tmp_path / "root"
    assert find_tcmalloc(vllm, root) is None
    system = touch(root / "usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
    assert find_tcmalloc(vllm, root) == system
    bundled = touch(vllm / "libs/libtcmalloc_minimal-12ab.so.4.5")
    assert find_tcmalloc(vllm, root) == bundled


def test_the_small_tcmalloc_is_enough_and_comes_first(tmp_path: Path) -> None:
    vllm, root = tmp_path / "vllm", tmp_path / "root"
    full = touch(root / "usr/lib64/libtcmalloc.so.4")
    assert find_tcmalloc(vllm, root) == full
    small = touch(root / "usr/lib64/libtcmalloc_minimal.so.4")
    assert find_tcmalloc(vllm, root) == small
