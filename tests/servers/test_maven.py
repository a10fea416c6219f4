"""What is fetched is there whole or not at all, and who cannot have it is told why."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.errors import SetupError
from tests.servers import maven
from tests.servers.cached import kept


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    return tmp_path / "servers"


def test_it_is_fetched_once_by_many_at_a_time(cache: Path) -> None:
    fetched: list[Path] = []

    def fetch(folder: Path) -> None:
        fetched.append(folder)
        (folder / "a.jar").write_text("a", encoding="utf-8")

    threads = [threading.Thread(target=kept, args=("it", "a:b:1", fetch)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1
    assert [file.name for file in kept("it", "a:b:1", fetch).iterdir()] == ["a.jar"]
    assert kept("it", "a:b:2", fetch) != kept("it", "a:b:1", fetch)


def test_a_failure_leaves_nothing_half_made(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise SetupError("no-server", "the line is dead")

    with pytest.raises(SetupError, match="the line is dead"):
        kept("it", "a:b:1", fail)
    assert [file.suffix for file in cache.iterdir()] == [".lock"]


def test_what_a_killed_run_left_is_swept_away(cache: Path) -> None:
    first = kept("it", "a:b:1", lambda folder: None)
    first.rename(f"{first}.partial")
    Path(f"{first}.partial", "half").touch()
    assert list(kept("it", "a:b:1", lambda folder: None).iterdir()) == []


def test_a_machine_without_maven_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="mvn, which is not there") as raised:
        maven.jars("it", ["a:b:1"])
    assert raised.value.code == "no-maven"


def test_what_maven_says_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mvn"
    program.write_text("#!/bin/sh\necho 'Could not find artifact'; exit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SetupError, match="Could not find artifact"):
        maven.unpacked("it", "a:b:1:tar.gz:all")
