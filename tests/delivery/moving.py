"""A process that moves rows, to be killed and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    def process(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "penstock", "run", "move.sql", *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{PROBE}", "PENSTOCK_CDS": "read"},
                stdout=log,
                stderr=log,
                text=True,
            )

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
            process.send_signal(signal.SIGKILL)
            self.kills += 1
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
        seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
        print(f"PENSTOCK_SEED={seed}")
        chance = random.Random(seed)
        while self.kills < times:
            before = self.planned() if chance.random() < 0.75 else -1
            moment = _After(lambda before=before: self.planned() > before, chance.uniform(0, seconds))
            assert self.kill_when(moment, "a random moment", *arguments), "all was moved before the last kill"


class _After:
    """True from some seconds after something has first happened."""

    def __init__(self, happens: Callable[[], bool], seconds: float) -> None:
        self._happens, self._seconds = happens, seconds
        self._due: float | None = None

    def __call__(self) -> bool:
        if self._due is None and self._happens():
            self._due = time.monotonic() + self._seconds
        return self._due is not None and time.monotonic() >= self._due
