"""A real shell, in which `penstock` is a command."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parent.parent.parent
WAIT_FOR = 'there() { until [ -p "$1" ]; do sleep 0.02; done; }\n'


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PENSTOCK_DEBUG", "NO_COLOR")}
    return kept | {
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm",
        "PS1": "$ ",
    }


def bash(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with jobs, as a terminal has them; `there NAME` waits until a pipe is there."""
    return subprocess.run(
        ["bash", "--norc", "-c", f"set -m\n{WAIT_FOR}{script}"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def command(folder: Path, *args: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """One command, its bytes as they are."""
    return subprocess.run(
        ["penstock", *args],
        cwd=folder,
        env=environment(),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL if stdin is None else None,
    )


class Terminal:
    """A shell at a terminal, typed into."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.shown = ""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            words = words or ("bash", "--norc", "--noediting", "-i")
            os.execvpe(words[0], words, environment())

    def send(self, one: signal.Signals) -> None:
        os.kill(self._pid, one)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def see(self, text: str) -> None:
        """Waits until the terminal shows it."""
        until(lambda: self._read() or text in self.shown, f"{text!r} on the terminal")

    def end(self) -> int:
        """Waits until the program ends; its exit code."""
        code: list[int] = []

        def ended() -> bool:
            self._read()
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            code.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            return bool(pid)

        until(ended, "the end of the program")
        self._read()
        self._pid = 0
        return code[0]

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def _read(self) -> bool:
        while select.select([self._fd], [], [], 0.02)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the other end has gone
                return False
            if not data:
                return False
            self.shown += data.decode("utf-8", "replace")
        return False
