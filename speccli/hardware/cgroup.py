"""What the cgroups, version 1, 2 or both, leave to this process of memory and processor time."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

UNLIMITED_BYTES = 2**60  # version 1 writes a number near 2^63 for "no limit"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """None: not limited."""

    memory_limit_bytes: int | None = None
    memory_free_bytes: int | None = None
    quota_cpus: float | None = None


def read_limits(root: Path = Path("/")) -> Limits:
    """The tightest limit on the way from the process's own cgroup up to the root."""
    folders = list(_folders(root))
    memory = [limit_and_use for folder in folders if (limit_and_use := _memory(folder))]
    quotas = [quota for folder in folders if (quota := _quota(folder))]
    return Limits(
        memory_limit_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((max(0, limit - used) for limit, used in memory), default=None),
        quota_cpus=min(quotas, default=None),
    )


def _folders(root: Path) -> Iterator[Path]:
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _upwards(mount, path)
            yield from _upwards(mount / "unified", path)
        elif {"memory", "cpu"} & set(controllers.split(",")):
            yield from _upwards(mount / controllers, path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    # In a container the path may be the host's; its folders are not there, and the mount itself is the container's.
    here = mount / path.lstrip("/")
    yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(mount))


def _memory(folder: Path) -> tuple[int, int] | None:
    """Limit and usage; the page cache that the kernel would drop is not usage."""
    limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
    if limit is None or limit >= UNLIMITED_BYTES:
        return None
    used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
    return limit, used - _field(folder / "memory.stat", ("inactive_file", "total_inactive_file"))


def _quota(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.max").split() or (
        _read(folder / "cpu.cfs_quota_us").strip(),
        _read(folder / "cpu.cfs_period_us").strip(),
    )
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _number(file: Path) -> int | None:
    text = _read(file).strip()
    return int(text) if text.isdigit() else None


def _field(file: Path, names: Iterable[str]) -> int:
    values = dict(line.split() for line in _read(file).splitlines())
    return max(int(values.get(name, 0)) for name in names)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
