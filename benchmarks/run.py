"""Penstock beside the same job by hand, in one alternating run: `make bench`.

Each pair runs both systems one after the other, and which goes first alternates, so that a change of the
machine's mood hits both. A pair gives one ratio; what counts is their median.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.jobs.by_penstock import statements
from benchmarks.measure import ROOT, Measured, Warm, cold

RESULTS = Path(__file__).parent / "results"
WARM_UP = 4
"""Rounds before those that count: by then the JVM has compiled what it will."""
SYSTEMS = ("penstock", "pyspark", "duckdb")
Run = Callable[[str, str, str], Measured]


def cold_run(system: str) -> Run:
    def run(kind: str, source: str, target: str) -> Measured:
        if system == "penstock":
            executable = Path(sys.executable).parent / "penstock"
            return cold([str(executable), "run", "-e", statements(kind, source, target), "--name", "bench"])
        script = ROOT / "benchmarks" / "jobs" / f"by_{system}.py"
        return cold([sys.executable, str(script), kind, source, target])

    return run


def pairs(runs: dict[str, Run], kind: str, source: Path, count: int) -> dict[str, list[Measured]]:
    measured: dict[str, list[Measured]] = {system: [] for system in runs}
    for number in range(count):
        order = list(runs) if number % 2 == 0 else list(reversed(runs))
        for system in order:
            target = data.FOLDER / "out" / system
            shutil.rmtree(target, ignore_errors=True)
            measured[system].append(runs[system](kind, str(source), str(target)))
            print(f"  {kind} {system}: {measured[system][-1].seconds:.2f} s", file=sys.stderr)
        check_equal([data.FOLDER / "out" / system for system in runs])
    return measured


def check_equal(targets: list[Path]) -> None:
    """All systems must have written the same rows."""
    tables = [pq.read_table(target).sort_by("id") for target in targets]
    if any(not table.equals(tables[0].cast(table.schema)) for table in tables[1:]):
        raise SystemExit("the systems did not write the same rows")


def summary(measured: dict[str, list[Measured]]) -> dict[str, Any]:
    ours, theirs = measured["penstock"], measured["pyspark"]
    ratios = [a.seconds / b.seconds for a, b in zip(ours, theirs, strict=True)]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "seconds": {s: round(statistics.median(m.seconds for m in ms), 2) for s, ms in measured.items()},
        "spread": {s: [round(min(m.seconds for m in ms), 2), round(max(m.seconds for m in ms), 2)]
                   for s, ms in measured.items()},
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


def plot(results: dict[str, Any], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(results)
    figure, axes = plt.subplots(figsize=(8, 4))
    for position, system in enumerate(SYSTEMS):
        heights = [results[name]["seconds"][system] for name in names]
        spread = [[results[name]["spread"][system][i] for name in names] for i in (0, 1)]
        below = [h - low for h, low in zip(heights, spread[0], strict=True)]
        above = [high - h for h, high in zip(heights, spread[1], strict=True)]
        places = [i + (position - 1) * 0.27 for i in range(len(names))]
        axes.bar(places, heights, 0.25, label=system, yerr=[below, above], capsize=3)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("seconds, median")
    axes.set_title("2 million events of 200 bytes to Parquet, filtered and projected")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--only", choices=("cold", "warm"))
    arguments.add_argument("--no-results", action="store_true", help="leave benchmarks/results/ as it is")
    chosen = arguments.parse_args()
    files = data.make(chosen.rows)
    results: dict[str, Any] = {}
    if chosen.only != "warm":
        prepare()
        for kind, source in files.items():
            runs = {system: cold_run(system) for system in SYSTEMS}
            results[f"{kind} cold"] = summary(pairs(runs, kind, source, chosen.pairs))
    if chosen.only != "cold":
        servers = {system: Warm(f"by_{system}.py") for system in SYSTEMS}
        for kind, source in files.items():
            pairs({s: server.run for s, server in servers.items()}, kind, source, WARM_UP)
            results[f"{kind} warm"] = summary(
                pairs({s: server.run for s, server in servers.items()}, kind, source, chosen.pairs)
            )
        for server in servers.values():
            server.close()
    report = {"date": str(date.today()), "rows": chosen.rows, "machine": machine(), "results": results}
    print(json.dumps(report, indent=2))
    if not chosen.no_results:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "files.json").write_text(json.dumps(report, indent=2) + "\n")
        plot(results, RESULTS / "files.svg")


def prepare() -> None:
    """Makes what a first run leaves behind for later ones: the class archive."""
    from penstock.engine import archive

    archive.build_now()


if __name__ == "__main__":
    main()
