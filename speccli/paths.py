"""Where things lie: the only file that knows a folder."""

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """Converted and unpacked checkpoints. Weights from the hub stay in the hub's own cache."""
    return Path(os.environ.get("SPECCLI_CACHE") or platformdirs.user_cache_dir("speccli"))


def config_dir() -> Path:
    """The user's settings and profiles."""
    return Path(platformdirs.user_config_dir("speccli"))


def state_dir() -> Path:
    """Engine logs and chat history."""
    return Path(platformdirs.user_state_dir("speccli"))


def is_there(name: str) -> bool:
    """Whether a file or folder is called so, whatever text that is: `Path.exists` raises where it is too long for a name."""
    return os.path.exists(name)  # noqa: PTH110 - False for what cannot be a name


def profiles_dir() -> Path:
    """The shipped profiles: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).parent
    packed = package / "_profiles"
    return packed if packed.is_dir() else package.parent / "profiles"
