"""Streams on a real Kafka: Penstock beside the same jobs by hand in PySpark: `make bench-kafka`.

- `to_parquet`: JSON messages, filtered and projected, to Parquet; `--peers` adds Flink SQL and Bytewax.
- `to_kafka`: the same to another topic, written as JSON again, at least once; ours also exactly once.

Both are run cold, in a new process, and warm, in one that stays; each run begins at the start of
the topic, with state and target of its own. What it made must be just the rows, by number and checksum, that
DuckDB finds in the file that the messages came from.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks import data, peers, topics
from benchmarks.compare import WARM_UP, alternating, canvas, draw_seconds, report, save, summary
from benchmarks.measure import Measured
from benchmarks.systems import RUNS, cold_run, prepare, warm_server
from tests.servers.kafka import VERSION, Kafka

SOURCE = "events"
JOBS = ("to_parquet", "to_kafka")
WANTED = {"to_parquet cold": 0.6, "to_kafka cold": 0.8, "to_parquet warm": 0.7, "to_kafka warm": 1.05}
"""At most this many times PySpark's time."""
EXACTLY_ONCE = "penstock, exactly once"
Run = Callable[..., Measured]


@dataclass
class Bench:
    """A broker with the messages, and what the jobs must make of them."""

    kafka: Kafka
    wanted: Mapping[str, Any]
    results: dict[str, Any] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def measure(self, job: str, how: str, runs: Mapping[str, Run], pairs: int, warm_up: int = 0) -> None:
        """Runs a job in all systems that have it, first for the JVMs' sake, then for the figures."""
        label = f"{job} {how}"
        bound = {
            system: partial(self.afresh, run, job)
            for system, run in runs.items()
            if job == "to_parquet" or system not in peers.PACKAGES
        }
        if job == "to_kafka" and "penstock" in runs:
            bound[EXACTLY_ONCE] = partial(self.afresh, runs["penstock"], "to_kafka_exactly_once")
        alternating(f"{label} up", bound, warm_up)
        told = summary(alternating(label, bound, pairs))
        self.results[label] = {"wanted": WANTED[label], **told, **self.wanted}

    def afresh(self, run: Run, job: str) -> Measured:
        """One run with a place and a target of its own, and a look at what it made."""
        place = RUNS / f"{job}-{next(self.numbers)}"
        place.mkdir(parents=True)
        words = (job, self.kafka.bootstrap, SOURCE)
        if job == "to_parquet":
            measured = run(*words, str(place / "out"), str(place))
            made = topics.in_parquet(place / "out")
        else:
            self.kafka.create_topic(place.name, topics.PARTITIONS)
            measured = run(*words, place.name, str(place))
            made = topics.in_topic(self.kafka, place.name)
            self.kafka.delete_topic(place.name)
        if made != self.wanted:
            raise SystemExit(f"{place.name} made {made}, and should have made {self.wanted}")
        shutil.rmtree(place)
        return measured


def main() -> None:
    chosen = arguments()
    systems = [*chosen.systems, *(peers.PACKAGES if chosen.peers else ())]
    shutil.rmtree(RUNS.parent, ignore_errors=True)
    broker = RUNS.parent / "broker"
    broker.mkdir(parents=True)
    prepare(systems)
    file = data.make(chosen.rows)["jsonl"]
    with Kafka(broker, heap="1g") as kafka:
        topics.load(kafka, SOURCE, file)
        topics.read_through(kafka, SOURCE)
        bench = Bench(kafka, topics.expected(file))
        if chosen.only in (None, "cold"):
            for job in chosen.jobs:
                bench.measure(job, "cold", {s: partial(cold_run, s) for s in systems}, chosen.pairs)
        if chosen.only in (None, "warm"):
            servers = {system: warm_server(system) for system in systems}
            for job in chosen.jobs:
                runs = {system: server.run for system, server in servers.items()}
                bench.measure(job, "warm", runs, chosen.pairs, WARM_UP)
            for server in servers.values():
                server.close()
    told = report(
        chosen.rows, bench.results,
        command=" ".join(["python -m benchmarks.kafka", *sys.argv[1:]]),
        message_bytes=round(file.stat().st_size / chosen.rows - 1),
        kafka=VERSION,
        peers={name: packages[0] for name, packages in peers.PACKAGES.items()},
    )  # fmt: skip
    print(json.dumps(told, indent=2))
    print("\n".join(verdicts(bench.results)), file=sys.stderr)
    if not chosen.no_results:
        save("kafka", told, draw(bench.results, [*systems, EXACTLY_ONCE]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", choices=("cold", "warm"))
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument(
        "--systems", nargs="+", choices=("penstock", "pyspark"), default=["penstock", "pyspark"]
    )
    parser.add_argument("--peers", action="store_true", help="add Flink SQL and Bytewax to to_parquet")
    parser.add_argument("--no-results", action="store_true", help="leave benchmarks/results/ as it is")
    return parser.parse_args()


def verdicts(results: Mapping[str, Any]) -> Iterator[str]:
    """What was wanted of the ratios, and what they are."""
    for name, told in results.items():
        if told["ratio"] is not None:
            yield f"{name}: {told['ratio']} times PySpark's time, wanted at most {told['wanted']}"
            memory = told["peak_mb"]["penstock"] / told["peak_mb"]["pyspark"]
            yield f"{name}: {memory:.2f} times PySpark's memory, wanted at most 1"


def draw(results: Mapping[str, Any], systems: Sequence[str]) -> Any:
    figure, (axes,) = canvas(9)
    draw_seconds(axes, results, systems)
    axes.set_title("2 million JSON messages from Kafka, filtered and projected")
    return figure


if __name__ == "__main__":
    main()
