"""A process that moves rows, to be killed and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE as WAIT
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PROBE = ROOT / "tests" / "fixtures" / "probe"


class Moving:
    """`penstock run` over a file of statements, in a folder of its own."""

    def __init__(self, folder: Path, statements: str) -> None:
        self.folder = folder
        self.probes = folder / "probes"
        self.probes.mkdir()
        (folder / "move.sql").write_text(statements.replace("{probes}", str(self.probes)))
        self.kills = 0

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A run; with its JVM it is a group of its own, of which nothing stays."""
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "run", "move.sql", *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{PROBE}", "PENSTOCK_CDS": "read"},
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            process.wait()

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kills Python and its JVM at once, half of the times; else Python alone, whose JVM then ends."""
        if self.kills % 4 < 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(signal.SIGKILL)
        self.kills += 1

    def run(self, *arguments: str) -> None:
        """Lets it run to its end."""
        with self.process(*arguments) as process:
            assert process.wait(3 * WAIT) == 0, self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text()[-4000:]

    def kill_when(self, happens: Callable[[], Any], what: str, *arguments: str) -> bool:
        """Starts it, and kills it once something has happened; False when it had ended before."""
        with self.process(*arguments) as process:
            until(lambda: happens() or process.poll() is not None, what)
            if process.poll() is not None:
                assert process.returncode == 0, self.log()
                return False
            self.kill(process)
            return True

    @contextmanager
    def stopped_at(self, *names: str) -> Iterator[Callable[[], bool]]:
        """While it lasts, batches wait at these probes; gives what tells that one does at each."""
        wanted = [self.probes / name for name in names]
        reached = [self.probes / f"{name}.reached" for name in names]
        for file in reached:
            file.unlink(missing_ok=True)
        for file in wanted:
            file.touch()
        try:
            yield lambda: all(file.exists() for file in reached)
        finally:
            for file in wanted:
                file.unlink()

    def kill_at(self, *names: str, arguments: tuple[str, ...] = ()) -> bool:
        """Kills it while a batch stands at each of these probes."""
        with self.stopped_at(*names) as reached:
            return self.kill_when(reached, ", ".join(names), *arguments)

    def planned(self) -> int:
        """How many batches have begun, in all streams."""
        return len(list((self.folder / ".penstock").glob("pipelines/*/checkpoint/offsets/[0-9]*")))

    def kill_by_chance(self, times: int, seconds: float, *arguments: str) -> None:
        """Kills it so often, one time in four while it starts, else some seconds after a batch began."""
        chance = seeded()
        while self.kills < times:
            before = self.planned() if chance.random() < 0.75 else -1
            moment = _After(lambda before=before: self.planned() > before, chance.uniform(0, seconds))
            assert self.kill_when(moment, "a random moment", *arguments), "all was moved before the last kill"

    def kill_behind(self, names: Sequence[str], times: int, seconds: float, *arguments: str) -> None:
        """Kills it so often, within some seconds after a batch has passed a probe, at each in turn.

        Every other time it is the batch that was cut off before, which runs again.
        """
        chance = seeded()
        turns = cycle(chance.sample(names, len(names)))
        while self.kills < times:
            name, before = next(turns), self.planned() - self.kills % 2
            with self.process(*arguments) as process:
                until(lambda before=before: self.planned() > before, "a batch", process)
                with self.stopped_at(name) as reached:
                    until(reached, f"a batch at {name}", process)
                time.sleep(chance.uniform(0, seconds))
                self.kill(process)
            print(f"killed {name} (batch {self.planned() - 1})")


def seeded() -> random.Random:
    """Chance that can be had again: pytest shows the seed where a test fails."""
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


class _After:
    """True from some seconds after something has first happened."""

    def __init__(self, happens: Callable[[], bool], seconds: float) -> None:
        self._happens, self._seconds = happens, seconds
        self._due: float | None = None

    def __call__(self) -> bool:
        if self._due is None and self._happens():
            self._due = time.monotonic() + self._seconds
        return self._due is not None and time.monotonic() >= self._due
