"""What a tokenizer's ids mean, read from its files without running it, and compared with another's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from speccli.checkpoint.files import Files
from speccli.errors import CheckpointError

T = TypeVar("T")

SPECIALS = ("bos_token", "eos_token", "unk_token", "pad_token")


class Tokenizer(msgspec.Struct, frozen=True):
    """The vocabulary of a checkpoint: which token each id stands for."""

    tokens: dict[int, str]
    digest: str
    """Of ids and tokens: equal for tokenizers that mean the same by every id."""
    specials: dict[str, str]
    file: str

    @property
    def size(self) -> int:
        """One more than the largest id: so many rows an embedding needs."""
        return max(self.tokens, default=-1) + 1


class Difference(msgspec.Struct, frozen=True):
    """How two vocabularies differ. `first` is the smallest id that means two things: id, target's, draft's."""

    num_shared_ids: int
    num_differing_ids: int
    first: tuple[int, str, str] | None
    num_only_first: int
    num_only_second: int
    num_common_tokens: int


def read(files: Files) -> Tokenizer | None:
    """The tokenizer of a checkpoint; None where it has none that speccli reads."""
    for file, reader in (("tokenizer.json", _fast), ("vocab.json", _vocab_json), ("tokenizer.model", _sentencepiece)):
        if file in files.sizes:
            tokens = reader(files, file)
            if tokens:
                return Tokenizer(tokens, _digest(tokens), _specials(files), file)
    return None


def compare(first: Tokenizer, second: Tokenizer) -> Difference:
    if first.digest == second.digest:
        size = len(first.tokens)
        return Difference(size, 0, None, 0, 0, size)
    shared = first.tokens.keys() & second.tokens.keys()
    differing = sorted(i for i in shared if first.tokens[i] != second.tokens[i])
    return Difference(
        num_shared_ids=len(shared),
        num_differing_ids=len(differing),
        first=(differing[0], first.tokens[differing[0]], second.tokens[differing[0]]) if differing else None,
        num_only_first=len(first.tokens) - len(shared),
        num_only_second=len(second.tokens) - len(shared),
        num_common_tokens=len(set(first.tokens.values()) & set(second.tokens.values())),
    )


class _Added(msgspec.Struct, frozen=True):
    id: int
    content: str


class _Model(msgspec.Struct, frozen=True):
    vocab: dict[str, int] | list[tuple[str, float]] = {}


class _TokenizerJson(msgspec.Struct, frozen=True):
    model: _Model = _Model()
    added_tokens: list[_Added] = []


def _fast(files: Files, file: str) -> dict[int, str]:
    read = _decoded(files, file, _TokenizerJson)
    vocab = read.model.vocab
    pairs = enumerate(token for token, _ in vocab) if isinstance(vocab, list) else ((i, t) for t, i in vocab.items())
    return dict(pairs) | {added.id: added.content for added in read.added_tokens}


def _vocab_json(files: Files, file: str) -> dict[int, str]:
    tokens = {i: token for token, i in _decoded(files, file, dict[str, int]).items()}
    if "added_tokens.json" in files.sizes:
        tokens |= {i: token for token, i in _decoded(files, "added_tokens.json", dict[str, int]).items()}
    return tokens | _added_by_config(files)


def _sentencepiece(files: Files, file: str) -> dict[int, str]:
    """A protobuf message whose field 1, repeated, holds a piece in its own field 1."""
    try:
        pieces = [
            next((text for number, text in _fields(piece) if number == 1), b"").decode()
            for number, piece in _fields(files.read(file, 0, files.sizes[file]))
            if number == 1
        ]
    except (ValueError, IndexError):
        return {}  # tiktoken's files carry the same name
    return dict(enumerate(pieces)) | _added_by_config(files)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message; numbers are passed over."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(message, at)
                yield key >> 3, message[at : at + size]
                at += size
            case 5:
                at += 4
            case kind:
                raise ValueError(f"no protobuf: wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _added_by_config(files: Files) -> dict[int, str]:
    added = (files.read_json("tokenizer_config.json") or {}).get("added_tokens_decoder") or {}
    return {int(i): _text(token) for i, token in added.items() if i.isdigit()}


def _specials(files: Files) -> dict[str, str]:
    config = files.read_json("tokenizer_config.json") or {}
    return {name: _text(config[name]) for name in SPECIALS if config.get(name) is not None}


def _text(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token)


def _digest(tokens: dict[int, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(sorted(tokens.items()))).hexdigest()


def _decoded(files: Files, file: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(files.read(file, 0, files.sizes[file]), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CheckpointError(f"{files.name}: {file} cannot be read: {error}", "fetch the checkpoint again") from error
