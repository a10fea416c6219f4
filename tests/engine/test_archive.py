from __future__ import annotations

import atexit
import os
import subprocess
from pathlib import Path

import pytest

from penstock.engine import archive
from penstock.engine.gateway import Launch
from penstock.engine.java import find_java
from penstock.errors import SetupError


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """A launch with one jar of its own, and an empty cache."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PENSTOCK_CDS", raising=False)
    jar = tmp_path / "extra.jar"
    jar.write_bytes(b"")
    return Launch(find_java(), (jar,))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """What would be made after this process."""
    asked: list[Launch] = []
    monkeypatch.setattr(atexit, "register", lambda call, launch: asked.append(launch))
    return asked


def put(launch: Launch, content: bytes = b"classes") -> Path:
    """An archive for `launch`, as a maker leaves it."""
    folder = Path(os.environ["PENSTOCK_CACHE"], "archives")
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "1.partial"
    partial.write_bytes(content)
    archive.keep(launch, partial)
    found = archive.find(launch)
    assert found is not None
    return found


def java(launch: Launch, *flags: str) -> subprocess.CompletedProcess[str]:
    """The JVM of `launch`, which says its version and ends."""
    command = launch.command(*flags, "--version")
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_an_archive_one_is_made_later(launch: Launch, later: list[Launch]) -> None:
    assert archive.use(launch) == ()
    assert later == [launch]


def test_a_maker_that_failed_is_not_started_again(launch: Launch, later: list[Launch]) -> None:
    archive.failure(launch).write_text("why")
    assert archive.use(launch) == ()
    assert later == []
    put(launch)
    assert not archive.failure(launch).exists()


def test_an_archive_is_used(launch: Launch, later: list[Launch]) -> None:
    path = put(launch)
    assert archive.use(launch) == (f"-XX:SharedArchiveFile={path}",)
    assert later == []


def test_the_archive_of_spark_alone_serves_until_then(launch: Launch, later: list[Launch]) -> None:
    path = put(Launch(launch.java))
    assert archive.use(launch) == (f"-XX:SharedArchiveFile={path}",)
    assert later == [launch]


def test_a_changed_jar_makes_it_stale(launch: Launch) -> None:
    put(launch)
    launch.jars[0].write_bytes(b"new")
    assert archive.find(launch) is None


def test_one_that_was_cut_short_is_removed(launch: Launch) -> None:
    path = put(launch)
    path.write_bytes(b"cla")
    assert archive.find(launch) is None
    assert not path.exists()


def test_off_and_read(launch: Launch, later: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CDS", "read")
    assert archive.use(launch) == ()
    path = put(launch)
    assert archive.use(launch) == (f"-XX:SharedArchiveFile={path}",)
    monkeypatch.setenv("PENSTOCK_CDS", "off")
    assert archive.use(launch) == ()
    assert later == []


def test_those_used_last_are_kept(launch: Launch, tmp_path: Path) -> None:
    launches = []
    for number in range(archive.KEEP + 2):
        jar = tmp_path / f"{number}.jar"
        jar.write_bytes(b"")
        launches.append(Launch(launch.java, (jar,)))
        os.utime(put(launches[-1]), (number, number))
    put(launch)
    kept = [number for number, each in enumerate(launches) if archive.find(each)]
    assert kept == list(range(3, archive.KEEP + 2))


def test_without_a_cache_folder_nothing_fails(
    launch: Launch, later: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", "/dev/null")
    assert archive.use(launch) == ()
    assert later == []


def test_the_jvm_takes_it_and_says_nothing(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "small.jsa"
    assert java(Launch(launch.java), f"-XX:ArchiveClassesAtExit={path}").returncode == 0
    loaded = tmp_path / "loaded"
    done = java(launch, f"-XX:SharedArchiveFile={path}", f"-Xlog:class+load:file={loaded}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "shared objects file (top)" in loaded.read_text()


@pytest.mark.parametrize("content", [b"", b"not an archive" * 10_000])
def test_a_corrupt_one_is_passed_over_in_silence(launch: Launch, content: bytes) -> None:
    put(launch, content)
    done = java(launch, *archive.use(launch))
    assert (done.returncode, done.stderr) == (0, "")
    assert "archive" not in done.stdout


def test_a_maker_that_fails_says_why(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_command", lambda _: ["sh", "-c", "echo 'no memory' >&2; exit 1"])
    with pytest.raises(SetupError, match="no memory"):
        archive.build_now(launch.jars)
