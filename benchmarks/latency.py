"""Kafka to Kafka while messages come: how long one takes in Penstock, in real-time mode, and in Flink SQL:
`make bench-latency`.

The systems run one after the other, each in a new process, on a broker that has nothing else to do; which
goes first alternates. What is sent before the first message has come through, and in the warm-up, does not
count.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import peers
from benchmarks.compare import canvas, report, save
from benchmarks.measure import ROOT
from benchmarks.meter import RATE
from benchmarks.systems import CORES, RUNS, Running, prepare, running
from tests.servers.kafka import VERSION, Kafka

SYSTEMS = ("penstock", "flink")
WANTED = 1.5
"""Our p99 is at most this many times Flink's."""

Told = dict[str, Any]


def main() -> None:
    chosen = arguments()
    shutil.rmtree(RUNS.parent, ignore_errors=True)
    broker = RUNS.parent / "broker"
    broker.mkdir(parents=True)
    prepare(SYSTEMS)
    # All that is measured waits for the broker: it is to be fast.
    with Kafka(broker, heap="1g", quick=False) as kafka:
        rounds = measure(kafka, chosen.rounds, chosen.seconds, chosen.warm_up)
    results = summary(rounds)
    told = report(
        int(RATE * chosen.seconds), results,
        command=" ".join(["python -m benchmarks.latency", *sys.argv[1:]]),
        warm_up=chosen.warm_up,
        kafka=VERSION,
        peers={"flink": peers.PACKAGES["flink"][0]},
    )  # fmt: skip
    print(json.dumps(told, indent=2))
    print(f"{results['ratio']} times the p99 of Flink's, wanted at most {WANTED}", file=sys.stderr)
    if not chosen.no_results:
        save("latency", told, draw(results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60, help="that a round measures")
    parser.add_argument("--warm-up", type=float, default=30, help="seconds of a round that do not count")
    parser.add_argument("--no-results", action="store_true", help="leave benchmarks/results/ as it is")
    return parser.parse_args()


def measure(kafka: Kafka, rounds: int, seconds: float, warm_up: float) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {system: [] for system in SYSTEMS}
    for number in range(rounds):
        for system in SYSTEMS[:: 1 if number % 2 == 0 else -1]:
            found[system].append(_once(kafka, system, f"live-{number}-{system}", seconds, warm_up))
            print(f"  {system}: {found[system][-1]}", file=sys.stderr)
    return found


def summary(rounds: Mapping[str, Sequence[Told]]) -> Told:
    """The medians of each system, and its rounds; a ratio of medians, and those of the pairs."""
    middle = {
        system: {
            key: round(statistics.median(told[key] for told in each), 2)
            for key in ("p50_ms", "p99_ms", "p999_ms")
        }
        for system, each in rounds.items()
    }
    ours, theirs = (rounds[system] for system in SYSTEMS)
    return {
        "wanted": WANTED,
        "ratio": round(middle["penstock"]["p99_ms"] / middle["flink"]["p99_ms"], 3),
        "ratios": [round(a["p99_ms"] / b["p99_ms"], 3) for a, b in zip(ours, theirs, strict=True)],
        **middle,
        "rounds": rounds,
    }


def draw(results: Told) -> Any:
    figure, (axes,) = canvas(5)
    for position, system in enumerate(SYSTEMS):
        heights = [results[system][key] for key in ("p50_ms", "p99_ms")]
        bars = axes.bar([i + position * 0.4 for i in (0, 1)], heights, 0.38, label=system)
        axes.bar_label(bars)
    axes.set_title("Kafka to Kafka at 1,000 messages a second")
    axes.set_xticks([0.2, 1.2], ["p50", "p99"])
    axes.set_ylabel("ms, median of the rounds")
    axes.legend()
    return figure


def _once(kafka: Kafka, system: str, name: str, seconds: float, warm_up: float) -> Told:
    """One system that runs, while messages are sent through it and timed."""
    place = RUNS / name
    place.mkdir(parents=True)
    source, target, broker = f"{name}-in", f"{name}-out", kafka.bootstrap
    for topic in (source, target):
        # In real-time mode each partition has a task that stays, and so needs a core.
        kafka.create_topic(topic, CORES)
    with running(system, "live", broker, source, target, str(place)) as mover:
        told = _metered(mover, [broker, source, target, str(seconds), str(warm_up)])
    for topic in (source, target):
        kafka.delete_topic(topic)
    shutil.rmtree(place)
    if told["lost"]:
        raise SystemExit(f"{system} lost messages: {told}")
    return told


def _metered(mover: Running, words: list[str]) -> Told:
    """What the meter tells; it is of no use any more when the mover ends."""
    command = [sys.executable, "-m", "benchmarks.meter", *words]
    meter = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    while meter.poll() is None and mover.process.poll() is None:
        time.sleep(0.5)
    meter.terminate()
    told, _ = meter.communicate()
    if meter.returncode:
        raise SystemExit(f"nothing to measure:\n{mover.last_words()}")
    return dict(json.loads(told))


if __name__ == "__main__":
    main()
