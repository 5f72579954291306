"""A YAML file that still knows its lines: decoded into a struct, or refused with one message that names the line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from speccli.errors import UsageError
from speccli.profile.methods import method_named

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")
Step = str | int

MAX_NODES = 100_000
"""What a file may unfold to: aliases of aliases grow without bound."""

LET_IT_BE_READ = "let it be read, or set XDG_CONFIG_HOME to another folder"

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
"""msgspec's names for what it expects and got."""


class Document(msgspec.Struct, frozen=True):
    """The plain values of one file, and the nodes that they were made from."""

    name: str
    plain: Any
    root: Any = None

    def where(self, path: Sequence[Step] = ()) -> str:
        """The file and the line of the deepest part of the path that is there."""
        line = _line(self.root, path)
        return self.name if line is None else f"{self.name}, line {line}"

    def refuse(self, path: Sequence[Step], problem: str, hint: str) -> UsageError:
        return UsageError(f"{self.where(path)}: {problem}", hint)

    def convert(self, kind: type[T]) -> T:
        """The file as `kind`; an empty file is an empty mapping."""
        try:
            return msgspec.convert({} if self.plain is None else self.plain, kind)
        except msgspec.ValidationError as error:
            raise self.explained(str(error), kind) from error

    def explained(self, problem: str, kind: type) -> UsageError:
        """What msgspec says of this document, in a user's words."""
        problem, _, place = problem.partition(" - at ")
        path = [int(i) if i else name for name, i in re.findall(r"\.([^.\[`]+)|\[(\d+)\]", place)]
        quoted = re.findall(r"[`'](.*?)[`']", problem)
        if "unknown field" in problem:
            return self.refuse([*path, quoted[0]], f"unknown key `{quoted[0]}`", _nearest(quoted[0], _keys(kind, path)))
        if "missing required" in problem:
            return self.refuse(path, f"the key `{quoted[0]}` is missing", f"add `{quoted[0]}:`")
        if problem.startswith("Invalid"):
            return self._refuse_choice(kind, path, quoted[0])
        key = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this"
        expected = _expected(problem)
        return self.refuse(path, f"{key} must be {expected}", _respelt(self._at(path), expected) or "correct the value")

    def _at(self, path: Sequence[Step]) -> Any:
        """The value there, None where there is none."""
        value = self.plain
        for step in path:
            held = isinstance(value, dict) and step in value
            held = held or (isinstance(value, list) and isinstance(step, int) and step < len(value))
            value = value[step] if held else None
        return value

    def _refuse_choice(self, kind: type, path: list[Step], value: str) -> UsageError:
        if path[-1] == "method":
            try:
                method_named(value)
            except UsageError as error:
                return self.refuse(path, error.message, error.hint)
        return self.refuse(path, f"`{path[-1]}` cannot be {value!r}", _nearest(value, _choices(kind, path)))


def shown(name: str | Path) -> str:
    """A name that any output can carry: a file's may be no UTF-8."""
    return re.sub("[\ud800-\udfff]", "\ufffd", str(name))


def listed(folder: Path) -> list[Path]:
    """The YAML files of a folder by their names; none where there is no folder. What begins with a dot is an editor's own."""
    try:
        with os.scandir(folder) as found:
            names = [one.name for one in found if one.name.endswith(".yaml") and one.name[0] != "." and one.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"cannot read {shown(folder)}: {error.strerror}", LET_IT_BE_READ) from error
    return [folder / name for name in sorted(names)]


def read(file: Path, remedy: str = "name a YAML file that can be read") -> Document:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {shown(file)}: {error.strerror}", remedy) from error
    return parse(content, shown(file))


def parse(content: bytes, name: str) -> Document:
    """Read one YAML document. A key that stands twice, and an alias that leads back to itself, is refused."""
    import yaml  # 100 ms

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(content)
    try:
        root = loader.get_single_node()
        document = Document(name, None, root)
        _check_nodes(document, root)
        plain = None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        raise _not_yaml(error, name) from error
    finally:
        loader.dispose()
    if plain is not None and not isinstance(plain, dict):
        raise UsageError(f"{name} is not a mapping of keys to values", "write it as lines of `key: value`")
    return Document(name, plain, root)


def _not_yaml(error: yaml.YAMLError, name: str) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    where = f"{name}, line {mark.line + 1}" if mark else name
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if "tab character" in problem or "that cannot start any token" in problem:
        return UsageError(f"{where}: a tab, or another character that YAML has no use for", "indent with spaces")
    return UsageError(f"{where} is not YAML: {problem}", "YAML indents with spaces, and needs one after each colon")


def _check_nodes(document: Document, root: yaml.Node | None) -> None:
    for count, (path, node, above) in enumerate(_walk(root, (), ())):
        if any(node is ancestor for ancestor in above):
            raise document.refuse(path, "an alias leads back to itself", "write the value out")
        if count > MAX_NODES:
            raise UsageError(f"{document.name} unfolds to more than {MAX_NODES} values", "write it without aliases")
        _check_keys(document, path, node)


def _check_keys(document: Document, path: tuple[Step, ...], node: Any) -> None:
    seen = set()
    for key, _ in node.value if node.id == "mapping" else []:
        name = str(key.value)
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        if key.tag != "tag:yaml.org,2002:str":
            raise document.refuse((*path, name), "YAML does not take this key for text", "put the key in quotes")
        if name in seen:
            raise document.refuse((*path, name), f"the key `{name}` stands twice", "keep one of the two")
        seen.add(name)


def _walk(
    node: yaml.Node | None, path: tuple[Step, ...], above: tuple[yaml.Node, ...]
) -> Iterator[tuple[tuple[Step, ...], yaml.Node, tuple[yaml.Node, ...]]]:
    """Every node as often as aliases repeat it, until one is inside itself: there the caller stops."""
    if node is None:
        return
    yield path, node, above
    for step, child in _children(node):
        yield from _walk(child, (*path, step), (*above, node))


def _children(node: Any) -> list[tuple[Step, Any]]:
    if node.id == "mapping":
        return [(str(key.value), value) for key, value in node.value]
    return list(enumerate(node.value)) if node.id == "sequence" else []


def _line(node: Any, path: Sequence[Step]) -> int | None:
    """Of a key: where it stands; of an item of a list: where it begins."""
    line: int | None = None
    for step in path:
        pairs = node.value if node is not None and node.id == "mapping" else []
        keys = {str(key.value): key for key, _ in pairs}
        found = dict(_children(node)).get(step) if node is not None else None
        if found is None:
            break
        line = keys.get(str(step), found).start_mark.line + 1
        node = found
    return line


def _expected(problem: str) -> str:
    """From "Expected `int | null`, got `str`", or "Expected `float` >= 0.0"."""
    found = re.findall(r"Expected `(.*?)`( [<>=]+ \S+)?", problem)
    expected, limit = found[0] if found else (problem, "")
    words = [WORDS.get(part, part) for part in expected.split(" | ") if part != "null"]
    got = [WORDS.get(part, part) for part in re.findall(r"got `(.*?)`", problem)]
    if "of length >= 1" in problem:
        return " or ".join(words) + " that is not empty"
    return " or ".join(words) + str(limit).removesuffix(".0") + (f", not {got[0]}" if got else "")


def _respelt(value: Any, expected: str) -> str:
    """YAML 1.1 takes 1e-9 for text: a number with an exponent has a point and a sign."""
    found = re.fullmatch(r"([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)", value) if isinstance(value, str) else None
    if found is None or "number" not in expected:
        return ""
    whole, point, sign, exponent = found.groups()
    return f"YAML takes {value} for text: write {whole}{point or '.0'}e{sign or '+'}{exponent}"


def _nearest(given: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(given.replace("-", "_"), known, n=1)
    return f"did you mean `{nearest[0]}`?" if nearest else f"known: {', '.join(known)}"


def _keys(kind: type, path: Sequence[Step]) -> list[str]:
    return [field.encode_name for struct in _types(kind, path) for field in getattr(struct, "fields", ())]


def _choices(kind: type, path: Sequence[Step]) -> list[str]:
    tags = [tag for parent in _types(kind, path[:-1]) if (tag := getattr(parent, "tag", None))]
    return [value for literal in _types(kind, path) for value in getattr(literal, "values", ())] or tags


def _types(kind: type, path: Sequence[Step]) -> list[Any]:
    """What may stand at that path: msgspec's descriptions of the types."""
    types: list[Any] = _members(msgspec.inspect.type_info(kind))
    for step in path:
        found = []
        for one in types:
            if isinstance(step, int):
                found += _members(getattr(one, "item_type", None))
            found += [t for f in getattr(one, "fields", ()) if f.encode_name == step for t in _members(f.type)]
        types = found
    return types


def _members(one: Any) -> list[Any]:
    if one is None:
        return []
    return list(getattr(one, "types", (one,)))
