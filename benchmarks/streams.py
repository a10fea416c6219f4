"""Streams without Spark: Penstock's client beside confluent-kafka's, `tap` and `flux` beside kcat, the log in
folders, and how soon a command starts: `make bench-streams`.

- `produce`, `consume`: 1 million messages of 200 bytes, each in a process that stays, on one broker. Both
  sides promise the same by the same settings: all replicas have stored a message before it counts, one
  request at a time keeps the order, only what is committed is read. confluent-kafka consumes as it comes,
  which now and then waits for a second, and promptly, told as ours is not to wait;
- `tap`, `flux`: the same number of lines, from the start of the command to its end, as JSON, which they are
  taken for unless told otherwise, and as they are; kcat, as it comes, does not look at them, and keeps no
  order when it tries again;
- `file`: the same in a folder, by our client alone;
- `start`: `penstock tap --help` beside the imports of the libraries that it needs, and no more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.compare import alternating, canvas, draw_seconds, report, save, summary
from benchmarks.measure import Measured, Warm, cold
from tests.servers.kafka import VERSION, Kafka

PLACE = data.FOLDER / "streams"
PLAIN, KCAT, BARE = "confluent-kafka", "kcat", "imports"
BLIND, PROMPT = f"{PLAIN}, blindly", f"{PLAIN}, promptly"
RAW = "penstock, raw"
SYSTEMS = ("penstock", RAW, PLAIN, BLIND, PROMPT, KCAT, BARE)
WANTED = {"produce": 0.8, "consume": 0.8, "tap": 0.5, "flux": 0.5, "start": 1 / 1.5}
"""At least this many times the speed of each that it is judged by."""
JUDGED = {
    "produce": (("penstock", PLAIN),),
    "consume": (("penstock", PLAIN), ("penstock", PROMPT)),
    "tap": (("penstock", KCAT), (RAW, KCAT)),
    "flux": (("penstock", KCAT), (RAW, KCAT)),
    "start": (("penstock", BARE),),
}
WANTED_OF_FILES = {"write": 300_000, "read": 1_000_000}
"""At least so many messages a second."""
PENSTOCK = str(Path(sys.executable).parent / "penstock")
IMPORTS = "import typer.rich_utils, rich.markdown, rich.columns, pydantic.fields, pydantic.type_adapter"
"""What it loads of others, by the names that bring the rest."""
WARM_UP = 1


def main() -> None:
    chosen = arguments()
    shutil.rmtree(PLACE, ignore_errors=True)
    (PLACE / "broker").mkdir(parents=True)
    results: dict[str, Any] = {}
    with Kafka(PLACE / "broker", heap="1g", quick=False) as kafka:
        bench = Bench(kafka, chosen.rows, chosen.pairs)
        if "client" in chosen.jobs:
            results |= bench.clients()
        if "commands" in chosen.jobs:
            results |= bench.commands()
    if "file" in chosen.jobs:
        results |= files(chosen.rows, chosen.pairs)
    if "start" in chosen.jobs:
        runs = {"penstock": lambda: cold([PENSTOCK, "tap", "--help"]),
                BARE: lambda: cold([sys.executable, "-c", IMPORTS])}  # fmt: skip
        results["start"] = compared("start", runs, 4 * chosen.pairs, BARE)
    told = report(
        chosen.rows, results,
        command=" ".join(["python -m benchmarks.streams", *sys.argv[1:]]),
        kafka=VERSION, kcat=kcat_version(),
    )  # fmt: skip
    print(json.dumps(told, indent=2))
    print("\n".join(verdicts(results)), file=sys.stderr)
    if not chosen.no_results:
        save("streams", told, draw(results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    jobs = ("client", "commands", "file", "start")
    parser.add_argument("--jobs", nargs="+", choices=jobs, default=jobs)
    parser.add_argument("--no-results", action="store_true", help="leave benchmarks/results/ as it is")
    return parser.parse_args()


class Bench:
    """A broker, and the jobs on it; each that writes has a topic of its own."""

    def __init__(self, kafka: Kafka, rows: int, pairs: int) -> None:
        self._kafka, self._rows, self._pairs = kafka, rows, pairs
        self._numbers: Iterator[int] = itertools.count()

    def clients(self) -> dict[str, Any]:
        servers = {"penstock": Warm("streams_by_penstock.py"), PLAIN: Warm("streams_by_confluent.py")}
        ours, theirs = f"kafka://{self._kafka.bootstrap}", self._kafka.bootstrap

        def produced(server: Warm, place: str, job: str = "produce") -> Measured:
            return self._into(lambda topic: server.run(job, place, topic, str(self._rows)))

        writing = {
            "penstock": partial(produced, servers["penstock"], ours),
            PLAIN: partial(produced, servers[PLAIN], theirs),
            BLIND: partial(produced, servers[PLAIN], theirs, "produce_blindly"),
        }
        told = {"produce": self._measured("produce", writing)}
        topic = self._topic()
        servers[PLAIN].run("produce", theirs, topic, str(self._rows))
        reading = {
            "penstock": partial(servers["penstock"].run, "consume", ours, topic, str(self._rows)),
            PLAIN: partial(servers[PLAIN].run, "consume", theirs, topic, str(self._rows)),
            PROMPT: partial(servers[PLAIN].run, "consume_promptly", theirs, topic, str(self._rows)),
        }
        told["consume"] = self._measured("consume", reading)
        self._kafka.delete_topic(topic)
        for server in servers.values():
            server.close()
        return told

    def _measured(self, job: str, runs: Mapping[str, Callable[[], Measured]]) -> dict[str, Any]:
        alternating(f"{job} up", runs, WARM_UP)
        return compared(job, runs, self._pairs, PLAIN)

    def commands(self) -> dict[str, Any]:
        broker, uri = self._kafka.bootstrap, f"kafka://{self._kafka.bootstrap}"
        lines = PLACE / "lines"
        with lines.open("w") as file:
            file.writelines(f'{{"id":"{n:010}","text":"{"x" * 169}"}}\n' for n in range(self._rows))

        def poured(command: str) -> Measured:
            return self._into(lambda topic: cold(["sh", "-c", f"exec {command.format(topic)} < {lines}"]))

        pouring = {
            "penstock": partial(poured, f"{PENSTOCK} flux - {uri}/{{}}"),
            RAW: partial(poured, f"{PENSTOCK} flux - {uri}/{{}} --format raw"),
            KCAT: partial(poured, f"kcat -P -b {broker} -t {{}}"),
        }
        told = {"flux": compared("flux", pouring, self._pairs, KCAT)}
        topic = self._topic()
        cold(["sh", "-c", f"exec kcat -P -b {broker} -t {topic} < {lines}"])
        tap = [PENSTOCK, "tap", "-", f"{uri}/{topic}", "--no-follow"]
        tapping = {
            "penstock": lambda: cold(tap),
            RAW: lambda: cold([*tap, "--format", "raw"]),
            KCAT: lambda: cold(["kcat", "-C", "-q", "-e", "-b", broker, "-t", topic, "-o", "beginning"]),
        }
        told["tap"] = compared("tap", tapping, self._pairs, KCAT)
        self._kafka.delete_topic(topic)
        return told

    def _into(self, run: Callable[[str], Measured]) -> Measured:
        """Into a topic of its own, which must hold all messages then."""
        topic = self._topic()
        measured = run(topic)
        held = sum(self._kafka.end_offsets(topic).values())
        self._kafka.delete_topic(topic)
        if held != self._rows:
            raise SystemExit(f"{held} messages were stored, not {self._rows}")
        return measured

    def _topic(self) -> str:
        topic = f"bench-{next(self._numbers)}"
        self._kafka.create_topic(topic)
        return topic


def files(rows: int, pairs: int) -> dict[str, Any]:
    """How many messages a second, each time in a stream of its own."""
    server = Warm("streams_by_penstock.py")
    found: dict[str, list[float]] = {"write": [], "read": []}
    (PLACE / "files").mkdir()
    for number in range(pairs + WARM_UP):
        for kind, job in (("write", "produce"), ("read", "consume")):
            started = time.perf_counter()
            server.run(job, f"file://{PLACE}/files/", f"s{number}", str(rows))
            found[kind].append(rows / (time.perf_counter() - started))
        print(f"  file: {found['write'][-1]:,.0f} written, {found['read'][-1]:,.0f} read", file=sys.stderr)
        shutil.rmtree(PLACE / "files" / f"s{number}")
    server.close()
    return {
        f"file {kind}": {
            "wanted": WANTED_OF_FILES[kind],
            "a_second": round(statistics.median(each[WARM_UP:])),
        }
        for kind, each in found.items()
    }


def compared(label: str, runs: Mapping[str, Callable[[], Measured]], pairs: int, peer: str) -> dict[str, Any]:
    measured = alternating(label, runs, pairs)
    speeds = {
        f"{ours} / {theirs}": round(1 / _beside(measured[ours], measured[theirs]), 3)
        for ours, theirs in JUDGED[label]
    }
    return {"wanted": round(WANTED[label], 2), "speeds": speeds, **summary(measured, peer)}


def _beside(ours: list[Measured], theirs: list[Measured]) -> float:
    return float(summary({"penstock": ours, "": theirs}, "")["ratio"])


def verdicts(results: Mapping[str, Any]) -> Iterator[str]:
    for name, told in results.items():
        if "a_second" in told:
            said = f"{told['a_second']:,} messages a second, wanted at least {told['wanted']:,}"
            yield f"{_met(told['a_second'] >= told['wanted'])}  {name}: {said}"
            continue
        for systems, speed in told["speeds"].items():
            said = f"{systems}: {speed} times its speed, wanted at least {told['wanted']}"
            yield f"{_met(speed >= told['wanted'])}  {name}, {said}"


def _met(enough: bool) -> str:
    return "met   " if enough else "MISSED"


def draw(results: Mapping[str, Any]) -> Any:
    figure, (axes,) = canvas(9)
    shown = {name: told for name, told in results.items() if "seconds" in told}
    draw_seconds(axes, shown, [s for s in SYSTEMS if any(s in told["seconds"] for told in shown.values())])
    axes.set_title("1 million messages of 200 bytes; and the start of a command")
    return figure


def kcat_version() -> str | None:
    kcat = shutil.which("kcat")
    told = subprocess.run([kcat, "-V"], capture_output=True, text=True).stdout if kcat else ""
    return next((line for line in told.splitlines() if line.startswith("Version")), None)


if __name__ == "__main__":
    main()
