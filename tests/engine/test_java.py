from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine.java import find_java
from penstock.errors import SetupError


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A folder that looks like Java's; without a `release` file its command must be asked."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    command.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; the shell is still on PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("21.0.2+13", 21), ("25-ea", 25)]
)
@pytest.mark.parametrize("release", [True, False])
def test_takes_java_home(
    monkeypatch: pytest.MonkeyPatch, nowhere: Path, version: str, major: int, release: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "jdk", version, release=release)))
    java = find_java()
    assert (java.version, java.major) == (version, major)
    assert java.home == nowhere / "jdk"


def test_takes_path_when_java_home_is_too_old(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(fake_java(nowhere / "new", "17.0.1") / "bin"))
    assert find_java().home == nowhere / "new"


def test_no_java_says_what_was_tried(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "/not/there")
    with pytest.raises(SetupError) as caught:
        find_java()
    assert caught.value.code == "no-java"
    assert caught.value.exit_code == 3
    assert "JAVA_HOME=/not/there" in caught.value.message
    assert "PATH" in caught.value.message
    assert "Java 17 or 21" in (caught.value.hint or "")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22"])
def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, nowhere: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "jdk", version)))
    with pytest.raises(SetupError, match=version) as caught:
        find_java()
    assert caught.value.code == "wrong-java"
