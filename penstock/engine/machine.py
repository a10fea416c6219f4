"""What this machine, or the container around it, has to offer, and the JVM flags that suit it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def cores(master: str = "local[*]") -> int:
    """The threads of a local master; `local[*]` takes all that this process may use."""
    match = re.match(r"local\[(\d+)", master)
    if match:
        return int(match[1])
    if master == "local":
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory, as the container limits it."""
    import psutil

    total = int(psutil.virtual_memory().total)
    for limit in _CGROUP_LIMITS:
        try:
            text = limit.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def heap() -> str:
    """The largest heap for Spark: a quarter of the memory, at least the 1 GB that Spark takes by itself."""
    return f"{max(1024, min(memory() >> 22, 8192))}m"


def jvm_flags(
    master: str, memory: str | None = None, *, short: bool = False, tables: bool = False
) -> tuple[str, ...]:
    """Measured in docs/decisions/0001-starting-spark.md. `tables` are sorted and merged by the JVM itself."""
    flags = [f"-Xmx{memory or heap()}", "-XX:MetaspaceSize=256m", "-XX:-UsePerfData"]
    flags += ["-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"]
    # The heap begins small and stays close to what is in use: the memory that Python workers need instead.
    flags += ["-Xms64m", "-XX:MinHeapFreeRatio=30", "-XX:MaxHeapFreeRatio=45", "-XX:NewRatio=1"]
    if tables:
        flags.append("-XX:+UseParallelGC")
    elif cores(master) <= 2:
        flags.append("-XX:+UseSerialGC")
    if short:
        # With one compiler Java has room for a fifth of the code; long sessions pay for looking what may go.
        flags += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"]
    else:
        # The second compiler waits four times longer: at first it takes more from the work than it gives.
        flags += [
            "-XX:Tier4InvocationThreshold=20000",
            "-XX:Tier4MinInvocationThreshold=2400",
            "-XX:Tier4CompileThreshold=60000",
            "-XX:Tier4BackEdgeThreshold=160000",
        ]
    return tuple(flags)
