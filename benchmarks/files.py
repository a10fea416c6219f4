"""Files: Penstock beside the same job by hand in PySpark, and in DuckDB: `make bench`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.compare import WARM_UP, alternating, canvas, draw_seconds, report, save, summary
from benchmarks.jobs.by_penstock import statements
from benchmarks.measure import JOBS, Measured, Warm, cold

SYSTEMS = ("penstock", "pyspark", "duckdb")
Run = Callable[[str, str, str], Measured]


def cold_run(system: str) -> Run:
    def run(kind: str, source: str, target: str) -> Measured:
        if system == "penstock":
            executable = Path(sys.executable).parent / "penstock"
            return cold([str(executable), "run", "-e", statements(kind, source, target), "--name", "bench"])
        return cold([sys.executable, str(JOBS / f"by_{system}.py"), kind, source, target])

    return run


def pairs(runs: Mapping[str, Run], kind: str, source: Path, count: int) -> dict[str, list[Measured]]:
    targets = {system: data.FOLDER / "out" / system for system in runs}

    def afresh(system: str) -> Measured:
        shutil.rmtree(targets[system], ignore_errors=True)
        return runs[system](kind, str(source), str(targets[system]))

    bound = {system: lambda system=system: afresh(system) for system in runs}
    return alternating(kind, bound, count, lambda: check_equal(list(targets.values())))


def check_equal(targets: list[Path]) -> None:
    """All systems must have written the same rows."""
    tables = [pq.read_table(target).sort_by("id") for target in targets]
    if any(not table.equals(tables[0].cast(table.schema)) for table in tables[1:]):
        raise SystemExit("the systems did not write the same rows")


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
            runs = {system: server.run for system, server in servers.items()}
            pairs(runs, kind, source, WARM_UP)
            results[f"{kind} warm"] = summary(pairs(runs, kind, source, chosen.pairs))
        for server in servers.values():
            server.close()
    told = report(chosen.rows, results)
    print(json.dumps(told, indent=2))
    if not chosen.no_results:
        figure, (axes,) = canvas(8)
        draw_seconds(axes, results, SYSTEMS)
        axes.set_title("2 million events of 200 bytes to Parquet, filtered and projected")
        save("files", told, figure)


def prepare() -> None:
    """Makes what a first run leaves behind for later ones: the class archive."""
    from penstock.engine import archive

    archive.build_now()


if __name__ == "__main__":
    main()
