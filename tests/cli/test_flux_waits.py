"""`penstock flux` while a server stands still: who writes waits, memory stays, and then all is stored."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.cli.backends import Backend
from tests.cli.shell import environment
from tests.servers.process import Process
from tests.streams.files import there
from tests.waiting import PATIENCE, until

LINES = [b'{"id": %d, "text": "%b"}' % (n, b"x" * 10_000) for n in range(6000)]
MEGABYTE = 1 << 20
SIZE = sum(len(line) + 1 for line in LINES)
HELD = 16 * MEGABYTE
"""Far more than the buffer of the producer and the pipe may hold, and far less than is written."""
QUIET = 1.0
"""Seconds without a change after which a writer counts as waiting."""


class Writer:
    """Writes to a pipe as `cat` does, and tells how much was taken."""

    def __init__(self, path: Path) -> None:
        self.taken = 0
        self._path = path
        self._changed = time.monotonic()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def waits(self) -> bool:
        return self._thread.is_alive() and time.monotonic() - self._changed > QUIET

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _write(self) -> None:
        # Nobody reads any more where the command was ended.
        with suppress(BrokenPipeError), self._path.open("wb", buffering=0) as pipe:
            for line in LINES:
                pipe.write(line + b"\n")
                self.taken += len(line) + 1
                self._changed = time.monotonic()


@contextmanager
def begun(backend: Backend, stream: str, pipe: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A flux with little room, of whose lines the first is stored."""
    uri = backend.at(stream)
    uri += f"{'&' if '?' in uri else '?'}buffer=1mb&timeout=5m"
    with subprocess.Popen(["penstock", "flux", str(pipe), uri], env=environment()) as flux:
        try:
            until(pipe.is_fifo, "the pipe", flux)
            pipe.write_bytes(b'"first"\n')
            until(lambda: held(backend, stream) == 1, "the first line, stored", flux)
            yield flux
        finally:
            flux.kill()


@contextmanager
def standing_still(server: Process) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.server
@pytest.mark.parametrize("backend", ["redis", "nats", "pulsar", "kafka"], indirect=True)
def test_who_writes_waits_while_a_server_stands_still(
    backend: Backend, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stream, pipe = backend.make("slow"), tmp_path / "producer"
    with begun(backend, stream, pipe) as flux:
        before = psutil.Process(flux.pid).memory_info().rss
        with standing_still(request.getfixturevalue(backend.name)):
            writer = Writer(pipe)
            until(writer.waits, "a writer that waits", flux)
            assert writer.taken < HELD < SIZE
            assert psutil.Process(flux.pid).memory_info().rss - before < 2 * HELD
        until(writer.has_ended, "the end of what is written", flux)
        flux.terminate()
        assert flux.wait(PATIENCE) == 0
    with backend.streamer.consumer(stream, mode="repeat") as consumer:
        got = [message.payload for message in there(consumer)]
        while len(got) < len(LINES) + 1 and (message := consumer.next(timeout=PATIENCE)):
            got.append(message.payload)
    assert got == [b'"first"', *LINES]


@pytest.mark.server
@pytest.mark.parametrize("backend", ["redis", "nats", "pulsar", "kafka"], indirect=True)
@pytest.mark.parametrize("is_full", [False, True], ids=["room", "full"])
def test_a_second_signal_ends_it_though_a_server_stands_still(
    backend: Backend, tmp_path: Path, request: pytest.FixtureRequest, is_full: bool
) -> None:
    stream, pipe = backend.make("left"), tmp_path / "producer"
    with begun(backend, stream, pipe) as flux, standing_still(request.getfixturevalue(backend.name)):
        if is_full:
            until(Writer(pipe).waits, "a writer that waits", flux)
        else:
            pipe.write_bytes(b'"second"\n')
        flux.terminate()
        time.sleep(QUIET)
        assert flux.poll() is None, "it does not wait for what is not stored"
        flux.terminate()
        assert flux.wait(10) == 130
        assert not pipe.exists()


def held(backend: Backend, stream: str) -> int:
    with backend.streamer.admin() as admin:
        return sum(shard.produced for shard in admin.describe(stream).shards)
