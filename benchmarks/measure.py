"""Time and memory of a process and all that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
JOBS = ROOT / "benchmarks" / "jobs"
ENVIRONMENT = {
    # Modules are compiled once, as where Penstock is installed.
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPATH": str(ROOT),
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True)
class Measured:
    seconds: float
    peak_mb: float
    cpu: float | None = None
    """Seconds of CPU time, where that is known."""


class Memory:
    """Samples the memory of a process tree; pages that processes share are counted once (PSS)."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self.peak = 0
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(0.2):
            self.peak = max(self.peak, self.now())

    def now(self) -> int:
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return 0
        return sum(_pss(process.pid) for process in processes)

    def stop(self) -> float:
        self._stop.set()
        self._thread.join()
        return self.peak / 2**20


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def cold(command: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT) -> Measured:
    """A new process, from start to finish."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    memory = Memory(process.pid)
    _, errors = process.communicate()
    seconds = time.perf_counter() - started
    peak = memory.stop()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors.decode()[-3000:]}")
    return Measured(seconds, peak)


class Warm:
    """A process that stays, and does one job after another."""

    def __init__(
        self,
        script: str,
        python: str = sys.executable,
        environment: Mapping[str, str] = ENVIRONMENT,
        words: Sequence[str] = (),
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, str(JOBS / script), *words],
            env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True,
        )  # fmt: skip
        self._await("ready")

    def _await(self, word: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
        self._errors.seek(0)
        errors = str(self._errors.read())[-3000:]
        raise SystemExit(f"{self._process.args} ended early:\n{errors}")

    def run(self, *words: str) -> Measured:
        assert self._process.stdin is not None
        memory, cpu = Memory(self._process.pid), self._cpu()
        started = time.perf_counter()
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        self._await("done")
        seconds = time.perf_counter() - started
        return Measured(seconds, memory.stop(), self._cpu() - cpu)

    def _cpu(self) -> float:
        """Of the process and all that it has started; what has ended counts with who waited for it."""
        root = psutil.Process(self._process.pid)
        total = 0.0
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
