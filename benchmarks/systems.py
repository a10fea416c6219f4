"""The systems that run the jobs on Kafka, each by its own script, in its own Python."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from benchmarks import data, peers
from benchmarks.jobs.kafka_by_penstock import PROJECT, statements
from benchmarks.measure import ENVIRONMENT, JOBS, ROOT, Measured, Warm, cold
from penstock.engine.jars import fetch

RUNS = data.FOLDER / "kafka" / "runs"
"""Where each run has a folder of its own."""
CORES = 2
SPARK_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


def prepare(systems: Sequence[str]) -> None:
    """Makes what a first run leaves behind for later ones: environments, jars, our class archive."""
    for system in systems:
        _python(system)
        _environment(system)
    if "penstock" in systems:
        from penstock.connectors.registry import by_name
        from penstock.engine import archive

        state = PROJECT.parent / "state"
        PROJECT.write_text(f"master: local[{CORES}]\nstate: {state}\n")
        archive.build_now(fetch(by_name("kafka").jars))


def cold_run(system: str, *words: str) -> Measured:
    return cold(_command(system, *words), _environment(system))


def warm_server(system: str) -> Warm:
    return Warm(f"kafka_by_{system}.py", _python(system), _environment(system))


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[bytes]
    errors: IO[str]

    def last_words(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-3000:]


@contextmanager
def running(system: str, *words: str) -> Iterator[Running]:
    """A job that goes on until the block is over."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            _command(system, *words), env=_environment(system), cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
        try:
            yield Running(process, errors)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that it started."""
    if process.poll() is not None:
        return
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(family, 30)
    for left in alive:
        left.kill()


def _command(system: str, job: str, broker: str, source: str, target: str, place: str) -> list[str]:
    if system != "penstock":
        script = str(JOBS / f"kafka_by_{system}.py")
        return [_python(system), script, job, broker, source, target, place]
    file = Path(place) / "statements.sql"
    file.write_text(statements(job, broker, source, target))
    words = [str(Path(sys.executable).parent / "penstock"), "run", str(file), "--config", str(PROJECT)]
    words += ["--name", Path(place).name]
    return words if job == "live" else [*words, "--until-caught-up"]


def _python(system: str) -> str:
    return str(peers.python_of(system)) if system in peers.PACKAGES else sys.executable


def _environment(system: str) -> Mapping[str, str]:
    if system != "pyspark":
        return ENVIRONMENT
    jars = ",".join(map(str, fetch(SPARK_JARS)))
    return {**ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
