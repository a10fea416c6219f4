"""Systems beside each other in one alternating run, and what is told of it.

Each pair runs all systems one after the other, and which goes first alternates, so that a change of the
machine's mood hits all. A pair gives one ratio; what counts is their median.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure import Measured

RESULTS = Path(__file__).parent / "results"
WARM_UP = 4
"""Rounds before those that count: by then the JVM has compiled what it will."""


def alternating(
    label: str,
    runs: Mapping[str, Callable[[], Measured]],
    count: int,
    check: Callable[[], None] = lambda: None,
) -> dict[str, list[Measured]]:
    """Runs all systems `count` times; `check` is called after each time."""
    measured: dict[str, list[Measured]] = {system: [] for system in runs}
    for number in range(count):
        for system in list(runs)[:: 1 if number % 2 == 0 else -1]:
            measured[system].append(runs[system]())
            print(f"  {label} {system}: {measured[system][-1].seconds:.2f} s", file=sys.stderr)
        check()
    return measured


def summary(measured: Mapping[str, Sequence[Measured]], peer: str = "pyspark") -> dict[str, Any]:
    """What the systems took; the ratios are ours to the peer's."""
    ours, theirs = measured.get("penstock", ()), measured.get(peer, ())
    ratios = [a.seconds / b.seconds for a, b in zip(ours, theirs, strict=False)]
    return {
        "ratio": round(statistics.median(ratios), 3) if ratios else None,
        "ratios": [round(ratio, 3) for ratio in ratios],
        "seconds": {s: round(statistics.median(m.seconds for m in ms), 2) for s, ms in measured.items()},
        "spread": {s: [round(min(m.seconds for m in ms), 2), round(max(m.seconds for m in ms), 2)]
                   for s, ms in measured.items()},
        "cpu_seconds": {s: round(statistics.median(m.cpu or 0 for m in ms), 2) for s, ms in measured.items()
                        if all(m.cpu is not None for m in ms)},
        "peak_mb": {s: round(statistics.median(m.peak_mb for m in ms)) for s, ms in measured.items()},
    }  # fmt: skip


def machine() -> dict[str, Any]:
    import duckdb
    import pyspark

    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.processor())  # fmt: skip
    return {
        "cpu": cpu,
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "duckdb": duckdb.__version__,
    }


def report(rows: int, results: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"date": str(date.today()), "rows": rows, **more, "machine": machine(), "results": results}


def canvas(*widths: int) -> tuple[Any, Any]:
    """A figure, and its axes beside each other, as wide as said."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(widths), figsize=(sum(widths), 4), width_ratios=widths, squeeze=False)
    return figure, axes[0]


def save(name: str, told: Mapping[str, Any], figure: Any) -> None:
    """Writes results/NAME.json and results/NAME.svg."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(told, indent=2) + "\n")
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.svg")


def draw_seconds(axes: Any, results: Mapping[str, Any], systems: Sequence[str]) -> None:
    """Bars of each system's median, with its spread."""
    names = list(results)
    width = 0.8 / len(systems)
    for position, system in enumerate(systems):
        there = [(i, results[name]) for i, name in enumerate(names) if system in results[name]["seconds"]]
        heights = [told["seconds"][system] for _, told in there]
        below = [told["seconds"][system] - told["spread"][system][0] for _, told in there]
        above = [told["spread"][system][1] - told["seconds"][system] for _, told in there]
        places = [place + (position - (len(systems) - 1) / 2) * width for place, _ in there]
        axes.bar(places, heights, width * 0.93, label=system, yerr=[below, above], capsize=3)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("seconds, median")
    axes.legend()
