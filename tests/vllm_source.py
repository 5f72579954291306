"""Reads the installed vLLM's source without importing it: its registry of models, and which class implements what."""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

MODELS = "vllm.model_executor.models"


def root() -> Path:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def registry(table: str) -> dict[str, tuple[str, str]]:
    """A table of the model registry: architecture to module and class."""
    for node in tree(root() / "model_executor" / "models" / "registry.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == table:
            found: dict[str, tuple[str, str]] = ast.literal_eval(node.value)
            return {name: (_full_name(module), cls) for name, (module, cls) in found.items()}
    raise LookupError(table)


@functools.cache
def implements(module: str, cls: str, interface: str) -> bool:
    """Whether the class, or one that it derives from, names the interface among its bases."""
    return any(_implements_in(file, module, cls, interface) for file in _files(module))


def function(path: str, name: str) -> ast.FunctionDef:
    found = [node for node in ast.walk(tree(root() / path)) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(found) == 1
    return found[0]


def _full_name(module: str) -> str:
    return module if module.startswith("vllm.") else f"{MODELS}.{module}"


def _files(module: str) -> list[Path]:
    """A module's file; of a package all files, since some choose among their modules when they are imported."""
    path = root().parent.joinpath(*module.split("."))
    file = path.with_suffix(".py")
    return [file] if file.is_file() else sorted(path.rglob("*.py"))


def _implements_in(file: Path, module: str, cls: str, interface: str) -> bool:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ClassDef) and node.name == cls and _derives(file, node, interface):
            return True
    origin = _imports(file).get(cls)
    return origin is not None and origin != (module, cls) and implements(*origin, interface)


def _derives(file: Path, node: ast.ClassDef, interface: str) -> bool:
    names = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != node.name]
    if interface in names:
        return True
    return any(implements(*_imports(file).get(name, (_module(file), name)), interface) for name in names)


@functools.cache
def _imports(file: Path) -> dict[str, tuple[str, str]]:
    """Names that a file imports, with the module and the name that they have there."""
    package = _module(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {name.asname or name.name: (module, name.name) for name in node.names}
    return found


def _module(file: Path) -> str:
    parts = file.relative_to(root().parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
