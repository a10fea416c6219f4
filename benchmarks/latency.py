"""Kafka -> Kafka while messages come: how long one takes, in systems that run one after the other."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.systems import CORES, RUNS, Running, running
from tests.servers.kafka import Kafka

WANTED = 1.5
"""Our p99 is at most this many times Flink's."""


def latency(
    kafka: Kafka, systems: Sequence[str], rounds: int, seconds: float, warm_up: float
) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
    for number in range(rounds):
        for system in systems if number % 2 == 0 else reversed(systems):
            found[system].append(_once(kafka, system, f"live-{number}-{system}", seconds, warm_up))
            print(f"  latency {system}: {found[system][-1]}", file=sys.stderr)
    middle = {
        system: {key: round(statistics.median(told[key] for told in each), 2) for key in each[0]}
        for system, each in found.items()
    }
    both = zip(found.get("penstock", ()), found.get("flink", ()), strict=False)
    ratios = [round(ours["p99_ms"] / theirs["p99_ms"], 3) for ours, theirs in both]
    return {
        "wanted": WANTED,
        "ratio": statistics.median(ratios) if ratios else None,
        "ratios": ratios,
        "seconds": seconds,
        "warm_up": warm_up,
        **middle,
    }


def _once(kafka: Kafka, system: str, name: str, seconds: float, warm_up: float) -> dict[str, Any]:
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


def _metered(mover: Running, words: list[str]) -> dict[str, Any]:
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
