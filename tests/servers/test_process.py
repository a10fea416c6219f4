"""Processes that come up, do not, and end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.servers import process
from tests.servers.process import Process, ServerError, free_ports, listens
from tests.waiting import until

LISTEN = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]


def test_it_is_ready_gone_and_back_on_the_same_port(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = Process("it", [*LISTEN, str(port)], tmp_path / "log", lambda: listens(port))
    server.start()
    first = server.pid
    with server.down():
        assert not listens(port)
        with pytest.raises(ServerError, match="it does not run"):
            _ = server.pid
    assert listens(port)
    assert server.pid != first
    server.stop()
    assert not listens(port)


def test_one_that_died_can_be_started_again(tmp_path: Path) -> None:
    server = Process("it", ["sleep", "600"], tmp_path / "log", lambda: True)
    server.start()
    with pytest.raises(ServerError, match="it runs already"):
        server.start()
    first = psutil.Process(server.pid)
    first.kill()
    until(lambda: first.status() == psutil.STATUS_ZOMBIE, "it ends")
    server.start()
    assert server.pid != first.pid
    server.stop()


def test_the_end_of_the_log_is_shown_when_it_does_not_come_up(tmp_path: Path) -> None:
    server = Process("it", ["sh", "-c", "echo no memory; exit 3"], tmp_path / "log", lambda: False)
    with pytest.raises(ServerError, match=r"it ended with code 3; its log ends:\nno memory"):
        server.start()


def test_one_that_is_never_ready_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START", 0.2)
    pids: set[int] = set()

    def ready() -> bool:
        pids.add(server.pid)
        return False

    server = Process("it", ["sleep", "600"], tmp_path / "log", ready)
    with pytest.raises(ServerError, match="it is not ready in 0 s"):
        server.start()
    assert not psutil.pid_exists(pids.pop())


def test_one_that_does_not_listen_to_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP", 0.2)
    log = tmp_path / "log"
    command = ["sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.1; done"]
    server = Process("it", command, log, lambda: b"ready" in log.read_bytes())
    server.start()
    pid = server.pid
    server.stop()
    assert not psutil.pid_exists(pid)


def test_it_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from tests.servers.process import Process; import time\n"
        f"server = Process('it', ['sleep', '600'], Path({str(tmp_path / 'log')!r}), lambda: True)\n"
        "server.start(); print(server.pid, flush=True); time.sleep(600)"
    )
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert psutil.pid_exists(pid)
        run.kill()
    until(
        lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "it ends"
    )
