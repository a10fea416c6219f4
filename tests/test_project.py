"""What holds the project together: versions, pins, packaging, the scripts behind make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parent.parent


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_one() -> None:
    assert f'\nversion = "{penstock.__version__}"\n' in read("pyproject.toml")
    assert f"\n## {penstock.__version__}\n" in read("CHANGELOG.md")


def test_all_that_is_needed_is_pinned() -> None:
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line) for line in lines)
    named = {re.split(r"[^\w.-]", line)[0].lower() for line in requires("penstock") or ()}
    assert named - {"penstock"} <= {line.partition("==")[0] for line in lines}


def test_invariants_that_the_code_names_are_there() -> None:
    known = set(re.findall(r"^(\d+)\. \*\*", read("docs/invariants.md"), re.MULTILINE))
    for file in (ROOT / "penstock").rglob("*.py"):
        named = set(re.findall(r"# Invariants? (\d+)", file.read_text(encoding="utf-8")))
        assert named <= known, file


def test_a_wheel_carries_the_examples(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for part in ("penstock", "examples"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, source)
    command = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)]
    subprocess.run([sys.executable, "-m", *command], check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = {f"penstock/{file.relative_to(ROOT)}" for file in (ROOT / "examples").rglob("*.*")}
    assert {"penstock/py.typed", "penstock/sql/parse.py", *shipped} <= names


@pytest.mark.parametrize(
    ("body", "code"),
    [("pass", 0), ("pytest.skip('no')", 1), ("pytest.xfail('no')", 1), ("assert False", 1)],
)
def test_a_skipped_test_fails_the_run(tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(f"import pytest\ndef test_it(): {body}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.no_skips",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout


def machine(*arguments: str, java_home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"JAVA_HOME": str(java_home)} if java_home else {})
    command = ["sh", str(ROOT / "scripts" / "machine.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def fake(program: Path, says: str) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_machine_that_has_all_is_told_nothing(tmp_path: Path) -> None:
    done = machine(sys.executable)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_machine_without_python_or_java_is_told_what_is_missing(tmp_path: Path) -> None:
    done = machine(str(tmp_path / "python3"), java_home=tmp_path)
    assert done.returncode == 1
    assert "missing: Python 3.10 or newer" in done.stderr
    assert "missing: Java 17 or 21" in done.stderr


def test_an_old_java_and_an_old_python_are_named(tmp_path: Path) -> None:
    fake(tmp_path / "bin" / "java", 'openjdk version "11.0.2" 2019-01-15')
    fake(tmp_path / "python3", "Python 3.8.1")
    done = machine(str(tmp_path / "python3"), java_home=tmp_path)
    assert done.returncode == 1
    assert "Java 17 or 21" in done.stderr
    assert "is 11)" in done.stderr
    assert "Python 3.8.1" in done.stderr
