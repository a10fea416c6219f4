"""Tables of a lake: Penstock beside the same jobs by hand in PySpark: `make bench-lake`.

- `kafka_to_delta`: JSON messages from Kafka, filtered, merged into a Delta table by user, in four batches.
- `kafka_to_iceberg`: the same messages appended to an Iceberg table.
- `upsert`: Parquet with changes to a million keys, of which a tenth are changed twice, merged into a Delta
  table of five million rows; the later change stays.
- `upsert_once`: the same with each key changed once. PySpark by hand relies on that, and does not look.

Each system is one process that stays; all have the same heap, cores and shuffle partitions. All is done
twice, by other processes: one may be a tenth faster than the next for all its life, as its compiler has
chosen. Each run has a target of its own. What it made must be just the rows, by number and checksum, that
DuckDB finds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks import data, topics
from benchmarks.compare import WARM_UP, alternating, canvas, draw_seconds, report, save, summary
from benchmarks.data import STREAM_FILTER, STREAM_SELECTED
from benchmarks.jobs.lake_by_penstock import PROJECT
from benchmarks.measure import ENVIRONMENT, Measured, Warm
from benchmarks.systems import SPARK_JARS
from penstock.connectors.registry import by_name
from penstock.engine.jars import fetch
from tests.servers.kafka import VERSION, Kafka

FOLDER = data.FOLDER / "lake"
RUNS, WAREHOUSE = FOLDER / "runs", FOLDER / "warehouse"
SOURCE = "events"
WANTED = {"kafka_to_delta": 1.05, "kafka_to_iceberg": 1.05, "upsert": 1.0, "upsert_once": 1.0}
"""At most this many times PySpark's time."""
SYSTEMS = ("penstock", "pyspark")
HEAP = "3g"
STORED, CHANGED = 5_000_000, 1_000_000


class Bench:
    """What the jobs read, and must make of it."""

    def __init__(self, kafka: Kafka, events: Path, rows: int) -> None:
        self._numbers = itertools.count()
        read = f"read_json('{events}', format = 'newline_delimited', columns = {topics.TYPES})"
        kept = f"SELECT {STREAM_SELECTED} FROM {read} WHERE {STREAM_FILTER}"
        latest = f"{kept} QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY id DESC) = 1"
        self._sources = {
            "kafka_to_delta": f"{kafka.bootstrap}/{SOURCE}/{rows // 4}",
            "kafka_to_iceberg": f"{kafka.bootstrap}/{SOURCE}/{rows}",
            "upsert": str(FOLDER / "changes"),
            "upsert_once": str(FOLDER / "changes_once"),
        }
        self.wanted = {"kafka_to_delta": digest(latest), "kafka_to_iceberg": digest(kept)}

    def make_upsert(self) -> None:
        """A table, and changes of which four fifths are to rows that it has."""
        row = "id, 'name ' || id AS name, id % 97 AS kind, id * 1.5 AS amount, {} AS version"
        stored = f"SELECT {row.format(1)} FROM range({STORED}) t(id)"
        keys = f"SELECT (i * 7919) % {STORED * 5 // 4} AS id FROM range({CHANGED}) t(i)"
        once, again = (f"SELECT {row.format(version)} FROM ({keys})" for version in (2, 3))
        changed = {"upsert_once": once, "upsert": f"{once} UNION ALL {again} WHERE id % 10 = 0"}
        with duckdb.connect() as connection:
            write_deltalake(FOLDER / "stored", connection.sql(stored).to_arrow_table())
            for job, changes in changed.items():
                folder = Path(self._sources[job])
                folder.mkdir(parents=True)
                connection.execute(f"COPY ({changes}) TO '{folder}/all.parquet' (FORMAT parquet)")
                rest = f"SELECT * FROM ({stored}) WHERE id NOT IN (SELECT id FROM ({keys}))"
                latest = f"SELECT id, max(version) AS version FROM ({changes}) GROUP BY id"
                made = f"SELECT id, version FROM ({rest}) UNION ALL {latest}"
                self.wanted[job] = digest(made, "id, version")

    def afresh(self, server: Warm, job: str) -> Measured:
        """One run with a place and a target of its own, and a look at what it made."""
        place = RUNS / f"{job}-{next(self._numbers)}"
        place.mkdir(parents=True)
        target = place / f"t{place.name.rpartition('-')[2]}"
        if job.startswith("upsert"):
            shutil.copytree(FOLDER / "stored", target)
        measured = server.run(job, self._sources[job], str(target), str(place))
        made = self._made(job, target)
        if made != self.wanted[job]:
            raise SystemExit(f"{place.name} made {made}, and should have made {self.wanted[job]}")
        shutil.rmtree(place)
        return measured

    def _made(self, job: str, target: Path) -> dict[str, Any]:
        if job == "kafka_to_iceberg":
            return digest(f"SELECT * FROM read_parquet('{WAREHOUSE}/db/{target.name}/data/*.parquet')")
        table = DeltaTable(target).to_pyarrow_table()
        return digest(
            "SELECT * FROM made", "id, version" if job.startswith("upsert") else "id, user_id", made=table
        )


def digest(rows: str, columns: str = "id, user_id", made: pa.Table | None = None) -> dict[str, Any]:
    """How many rows, and a sum over them that neither order nor files change."""
    with duckdb.connect() as connection:
        if made is not None:
            connection.register("made", made)
        values = ", ".join(f"CAST({name.strip()} AS BIGINT)" for name in columns.split(","))
        ((count, total),) = connection.execute(
            f"SELECT count(*), sum(hash({values})) FROM ({rows})"
        ).fetchall()
    return {"rows": count, "checksum": f"{int(total or 0) % 2**64:016x}"}


def servers() -> dict[str, Warm]:
    jars = [*by_name("kafka").jars, *by_name("delta").jars, *by_name("iceberg").jars]
    catalog = {"type": "hadoop", "warehouse": str(WAREHOUSE)}
    PROJECT.write_text(
        json.dumps(
            {
                "master": "local[2]",
                "state": str(FOLDER / "state"),
                "spark": {"spark.driver.memory": HEAP},
                "catalogs": {"lake": catalog},
            }
        )
    )
    paths = ",".join(map(str, fetch(tuple(dict.fromkeys([*SPARK_JARS, *jars])))))
    submit = {"PYSPARK_SUBMIT_ARGS": f"--driver-memory {HEAP} --jars {paths} pyspark-shell"}
    by_hand = Warm("lake_by_pyspark.py", environment={**ENVIRONMENT, **submit}, words=(str(WAREHOUSE),))
    return {"penstock": Warm("lake_by_penstock.py"), "pyspark": by_hand}


def main() -> None:
    chosen = arguments()
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "broker").mkdir(parents=True)
    events = data.make(chosen.rows)["jsonl"]
    results: dict[str, Any] = {}
    with Kafka(FOLDER / "broker", heap="1g") as kafka:
        topics.load(kafka, SOURCE, events)
        topics.read_through(kafka, SOURCE)
        bench = Bench(kafka, events, chosen.rows)
        bench.make_upsert()
        measured = defaultdict[str, dict[str, list[Measured]]](lambda: {system: [] for system in SYSTEMS})
        for _ in range(chosen.processes):
            running = servers()
            for job in chosen.jobs:
                runs = {system: partial(bench.afresh, server, job) for system, server in running.items()}
                alternating(f"{job} up", runs, WARM_UP)
                for system, times in alternating(job, runs, chosen.pairs).items():
                    measured[job][system] += times
            for server in running.values():
                server.close()
        for job, times in measured.items():
            results[job] = {"wanted": WANTED[job], **summary(times), **bench.wanted[job]}
    told = report(
        chosen.rows, results,
        command=" ".join(["python -m benchmarks.lake", *sys.argv[1:]]),
        kafka=VERSION, stored=STORED, changed=CHANGED,
    )  # fmt: skip
    print(json.dumps(told, indent=2))
    print("\n".join(verdicts(results)), file=sys.stderr)
    if not chosen.no_results:
        save("lake", told, draw(results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--pairs", type=int, default=3, help="of each process")
    parser.add_argument("--processes", type=int, default=2, help="of each system, one after the other")
    parser.add_argument("--jobs", nargs="+", choices=tuple(WANTED), default=tuple(WANTED))
    parser.add_argument("--no-results", action="store_true", help="leave benchmarks/results/ as it is")
    return parser.parse_args()


def verdicts(results: Mapping[str, Any]) -> Iterator[str]:
    """What was wanted of the ratios, and what they are."""
    for name, told in results.items():
        yield f"{name}: {told['ratio']} times PySpark's time, wanted at most {told['wanted']}"


def draw(results: Mapping[str, Any]) -> Any:
    figure, (axes,) = canvas(9)
    draw_seconds(axes, results, SYSTEMS)
    axes.set_title("Into tables: from Kafka, and a million rows into five million")
    return figure


if __name__ == "__main__":
    main()
