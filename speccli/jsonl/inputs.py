"""Input files as lines: plain, .gz or .zst, several, or stdin. One line is in memory at a time."""

from __future__ import annotations

import glob
import importlib
import io
import os
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.jsonl.places import Identity, identity, is_device

STDIN = "-"

MAX_LINE_BYTES = 64 * 2**20
"""More is no request, but a file that is not JSONL; it must not fill the memory."""

UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ZSTD_MODULES = ("compression.zstd", "backports.zstd")


class Input(msgspec.Struct, frozen=True):
    """One input: a file, or stdin where there is no path."""

    name: str
    path: Path | None = None

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once."""
        return self.path is None or not os.path.isfile(self.path)  # noqa: PTH113 - False, too, where that cannot be asked


class RawLine(NamedTuple):
    """One line that is not blank, or what kept it from being read."""

    name: str
    number: int
    text: bytes
    fault: str | None = None


def find_inputs(names: Sequence[str], no_match: Collection[Identity] = ()) -> tuple[Input, ...]:
    """The files that are named, patterns filled in: never with one of `no_match`.

    Raises `UsageError` for one that is missing, named twice, or of a kind that lines cannot be read from.
    """
    found = [one for name in names for one in _named(name, no_match)]
    by_file: dict[object, Input] = {}
    called: set[str] = set()
    for one in found:
        key = STDIN if one.path is None else identity(one.path, "read")
        if key in by_file:
            raise UsageError(
                f"{one.name} is named twice{'' if by_file[key].name == one.name else f', also as {by_file[key].name}'}",
                "name each input once",
            )
        if one.name in called:
            raise UsageError(f"two inputs are called {one.name}: their lines could not be told apart", "rename one")
        by_file[key] = one
        called.add(one.name)
    return tuple(found)


def lines(inputs: Sequence[Input], stdin: BinaryIO) -> Iterator[RawLine]:
    """All lines of all inputs, in order. Blank ones are passed over."""
    for one in inputs:
        if one.path is None:
            yield from _lines_of("stdin", _unpacked(stdin, "stdin"))
        else:
            with _opened(one.path) as raw, closing(_unpacked(raw, one.name)) as file:
                yield from _lines_of(one.name, file)


def count_lines(inputs: Sequence[Input]) -> int | None:
    """How many lines there are to answer; None where that cannot be known before they are read."""
    if any(one.is_stream for one in inputs):
        return None
    return sum(_count(one.path) for one in inputs if one.path is not None)


def _count(path: Path) -> int:
    with _opened(path) as raw, closing(_unpacked(raw, str(path))) as file:
        return sum(1 for _ in _lines_of(str(path), file))


def _named(name: str, no_match: Collection[Identity]) -> list[Input]:
    if name == STDIN:
        return [Input("stdin")]
    if paths.is_there(name) or not glob.has_magic(name):
        files = [name]
    else:
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - a pattern may be absolute
        files = [match for match in matches if os.path.isfile(match) and identity(Path(match), "read") not in no_match]  # noqa: PTH113
        if not files:
            raise UsageError(f"no file matches {name}", "correct the pattern, or name the files")
    found = [Input(_shown(file), Path(file)) for file in files]
    for one in found:
        _look_into(one)
    return found


def _look_into(one: Input) -> None:
    """Raise `UsageError` where a file is missing, or shows at its start that no line can be read from it. A stream is left alone."""
    if one.path is None or (one.is_stream and is_device(one.path) and not one.path.is_socket()):
        return
    with _opened(one.path) as raw, closing(_unpacked(raw, one.name)):
        pass


def _shown(name: str) -> str:
    """The name as records can carry it: a file's may be no UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "name a JSONL file, or - for stdin") from error


def _unpacked(file: BinaryIO, name: str) -> BinaryIO:
    """The text of the file: what it is shows in its first bytes, whatever its name is."""
    buffered = file if hasattr(file, "peek") else io.BufferedReader(cast(io.RawIOBase, file))
    try:
        start = cast(io.BufferedReader, buffered).peek(4)[:4]
    except OSError as error:
        raise UsageError(
            f"cannot read {name}: {error.strerror or error}", "name a JSONL file, or - for stdin"
        ) from error
    if start.startswith(GZIP):
        import gzip

        return cast(BinaryIO, gzip.open(buffered, "rb"))
    if start.startswith(ZSTD):
        return cast(BinaryIO, io.BufferedReader(_zstd(name).open(buffered, "rb")))
    if start.startswith(UTF16_BOMS):
        raise UsageError(f"{name} is UTF-16 text", f"convert it to UTF-8: iconv -f UTF-16 -t UTF-8 {name} > utf8.jsonl")
    return buffered


def _zstd(name: str) -> Any:
    for module in ZSTD_MODULES:
        try:
            return importlib.import_module(module)
        except ImportError:
            continue
    raise UsageError(
        f"{name} is packed with Zstandard, which this Python cannot read",
        f"unpack it (zstd -d {name}), or install backports.zstd",
    )


def _lines_of(name: str, file: BinaryIO) -> Iterator[RawLine]:
    number = 0
    try:
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                _skip_line(file)
                yield RawLine(name, number, b"", f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB")
                continue
            text = line.removeprefix(UTF8_BOM).strip()  # files that were put together have one within
            if text:
                yield RawLine(name, number, text)
    except Exception as error:  # of three packers, each with its own
        if not _is_damage(error):
            raise
        yield RawLine(name, number + 1, b"", f"the file cannot be read any further: {error}")


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
        pass


def _is_damage(error: Exception) -> bool:
    return isinstance(error, OSError | EOFError | zlib.error) or type(error).__name__ == "ZstdError"
