"""A server as a process of this machine: started, waited for, killed, started again."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

START = 120.0
"""Seconds until a server must be ready; far more than it takes, since machines are busy."""
STOP = 30.0

# Below the ports that the system gives to clients: one that connects again and again to a server that is
# down can be given the server's own port, and then holds it.
PORTS = range(15000, 32000)


_Server = TypeVar("_Server", bound="Process")


class ServerError(Exception):
    """A server did not come up, or is gone."""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ServerError(f"no {count} free ports in {PORTS}")


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """One server process, started with the same command each time; its output is added to `log`."""

    def __init__(self, name: str, command: Sequence[str], log: Path, ready: Callable[[], bool]) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self: _Server) -> _Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError(f"{self.name} does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it, and returns when it is ready."""
        if self.running:
            raise ServerError(f"{self.name} runs already")
        self.kill()  # puts away what is left of one that ended by itself
        with open(self.log, "ab") as log:
            # In a session of its own, so that Ctrl-C ends the tests first and then, in order, the servers.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._guard = _guard(self._process.pid)
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Asks it to end, and kills it when it does not."""
        self._end(patience=STOP)

    def kill(self) -> None:
        """kill -9."""
        self._end(patience=0)

    def restart(self) -> None:
        """Ends it in order and starts it again, on the same ports and data."""
        self.stop()
        self.start()

    @contextmanager
    def down(self, *, kill: bool = True) -> Iterator[None]:
        """It is gone for the length of a block, and back after it, whatever happens there."""
        self._end(patience=0 if kill else STOP)
        try:
            yield
        finally:
            self.start()

    def tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START
        while not self._ready():
            code = self._process.poll()
            if code is not None:
                raise ServerError(f"{self.name} ended with code {code}; its log ends:\n{self.tail()}")
            if time.monotonic() > end:
                raise ServerError(f"{self.name} is not ready in {START:.0f} s; its log ends:\n{self.tail()}")
            time.sleep(0.1)

    def _end(self, patience: float) -> None:
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()  # first: after the server is gone, its pid may be another's
            guard.communicate()
        if process is None:
            return
        if patience:
            process.terminate()
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
        process.kill()
        process.wait()


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Kills a server when this process is gone without having ended it: the end of stdin tells."""
    return subprocess.Popen(
        ["sh", "-c", "cat; kill -9 $0", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
