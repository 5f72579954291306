"""The processor and the memory, read from trees like those of a desk, a container and a Raspberry Pi."""

from pathlib import Path

import pytest

from speccli.hardware.cgroup import Limits, read_limits
from speccli.hardware.cpu import read_cpu

GIB = 2**30
X86 = (
    "processor: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16 ht\n"
)
ARM = "processor: 0\nBogoMIPS: 243.75\nFeatures\t: fp asimd evtstrm sve i8mm bf16\nCPU implementer: 0x41\n"
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   12582912 kB\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def topology(cpus: dict[int, tuple[int, int]]) -> dict[str, str]:
    """CPU number → package, core."""
    return {
        f"sys/devices/system/cpu/cpu{cpu}/topology/{name}": f"{value}\n"
        for cpu, (package, core) in cpus.items()
        for name, value in (("physical_package_id", package), ("core_id", core))
    }


def desk(root: Path, **more: str) -> Path:
    return write(root, {"proc/cpuinfo": X86, "proc/meminfo": MEMINFO, **more})


def test_the_processor_of_a_desk(tmp_path: Path) -> None:
    write(tmp_path, topology({0: (0, 0), 1: (0, 1), 2: (0, 0), 3: (0, 1)}))
    cpu = read_cpu(desk(tmp_path), affinity={0, 1, 2, 3}, architecture="x86_64")
    assert cpu.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert cpu.architecture == "x86_64"
    assert (cpu.physical_cores, cpu.usable_cpus) == (2, 4)
    assert cpu.flags == ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    assert cpu.has_bf16
    assert (cpu.memory_total_bytes, cpu.memory_available_bytes) == (16 * GIB, 12 * GIB)
    assert cpu.memory_limit_bytes is None


def test_an_arm_processor_has_its_own_names_for_things(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": ARM, "proc/meminfo": MEMINFO})
    cpu = read_cpu(tmp_path, affinity={0}, architecture="aarch64")
    assert cpu.flags == ("asimd", "bf16", "i8mm", "sve")
    assert cpu.has_bf16


def test_a_processor_with_avx2_alone_has_no_bfloat16(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "model name: AMD EPYC\nflags: avx2\n", "proc/meminfo": MEMINFO})
    assert not read_cpu(tmp_path, affinity={0}).has_bf16


def test_cores_are_counted_among_the_cpus_that_the_process_may_use(tmp_path: Path) -> None:
    write(tmp_path, topology({0: (0, 0), 1: (0, 0), 2: (1, 0), 3: (1, 0)}))
    cpu = read_cpu(desk(tmp_path), affinity={0, 1, 2})
    assert (cpu.physical_cores, cpu.usable_cpus) == (2, 3)


def test_without_topology_each_cpu_counts_as_a_core(tmp_path: Path) -> None:
    assert read_cpu(desk(tmp_path), affinity={0, 1}).physical_cores == 2


def test_numa_nodes_are_counted(tmp_path: Path) -> None:
    for node in ("node0", "node1", "online_is_none"):
        (tmp_path / "sys/devices/system/node" / node).mkdir(parents=True)
    assert read_cpu(desk(tmp_path), affinity={0}).numa_nodes == 2


@pytest.mark.parametrize(
    ("quota", "usable"), [("150000 100000", 1), ("50000 100000", 1), ("300000 100000", 3), ("max 100000", 4)]
)
def test_a_quota_leaves_whole_cpus_and_at_least_one(tmp_path: Path, quota: str, usable: int) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota}\n"})
    assert read_cpu(desk(tmp_path), affinity={0, 1, 2, 3}).usable_cpus == usable


def test_a_container_limits_total_and_available_memory(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}\n",
        },
    )
    cpu = read_cpu(desk(tmp_path), affinity={0})
    assert cpu.memory_total_bytes == 4 * GIB
    assert cpu.memory_available_bytes == 3 * GIB
    assert cpu.memory_limit_bytes == 4 * GIB


def test_a_limit_above_the_machines_memory_is_no_limit(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{64 * GIB}\n"})
    cpu = read_cpu(desk(tmp_path), affinity={0})
    assert (cpu.memory_total_bytes, cpu.memory_limit_bytes) == (16 * GIB, None)


def test_in_version_2_the_tightest_level_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/app\n",
            "sys/fs/cgroup/user.slice/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/user.slice/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/user.slice/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/user.slice/app/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/app/cpu.max": "400000 100000\n",
        },
    )
    assert read_limits(tmp_path) == Limits(memory_limit_bytes=2 * GIB, memory_free_bytes=GIB, quota_cpus=2.0)


def test_version_1_is_read_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "9:name=systemd:/\n4:memory:/pod/a\n3:cpu,cpuacct:/pod/a\n2:pids:/pod\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/pod/a/memory.limit_in_bytes": f"{8 * GIB}\n",
            "sys/fs/cgroup/memory/pod/a/memory.usage_in_bytes": f"{5 * GIB}\n",
            "sys/fs/cgroup/memory/pod/a/memory.stat": f"cache 1\ntotal_inactive_file {GIB}\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/a/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/a/cpu.cfs_period_us": "100000\n",
        },
    )
    assert read_limits(tmp_path) == Limits(memory_limit_bytes=8 * GIB, memory_free_bytes=4 * GIB, quota_cpus=2.5)


def test_a_container_that_sees_the_hosts_path_finds_its_limits_at_the_mount(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/0123abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
        },
    )
    assert read_limits(tmp_path) == Limits(memory_limit_bytes=GIB, memory_free_bytes=GIB)


def test_where_there_are_no_cgroups_nothing_is_limited(tmp_path: Path) -> None:
    assert read_limits(tmp_path) == Limits()


def test_where_there_is_no_proc_python_tells_the_memory(tmp_path: Path) -> None:
    cpu = read_cpu(tmp_path, affinity={0, 1})
    assert cpu.memory_total_bytes == cpu.memory_available_bytes > 0
    assert cpu.flags == ()
    assert (cpu.physical_cores, cpu.usable_cpus, cpu.numa_nodes) == (2, 2, 1)
