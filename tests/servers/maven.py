"""Exact sets of files from the Maven registry, fetched once into the cache folder.

What cannot be had is an error, so that the tests that need it fail; none is left out.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.engine.cache import cache_folder
from penstock.errors import SetupError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
TIMEOUT = 600

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId>
  <artifactId>servers</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def jars(name: str, coordinates: Sequence[str]) -> Path:
    """A folder with the jars of `group:artifact:version`s and all that they need to run."""

    def fetch(folder: Path) -> None:
        pom = folder / "pom.xml"
        dependencies = "\n".join(DEPENDENCY.format(*coordinate.split(":")) for coordinate in coordinates)
        pom.write_text(POM.format(dependencies=dependencies), encoding="utf-8")
        _maven("copy-dependencies", "-f", str(pom), "-DincludeScope=runtime", f"-DoutputDirectory={folder}")

    return kept(name, " ".join(coordinates), fetch)


def unpacked(name: str, coordinate: str) -> Path:
    """A folder with what is in the archive `group:artifact:version:tar.gz:classifier`."""

    def fetch(folder: Path) -> None:
        _maven("copy", f"-Dartifact={coordinate}", f"-DoutputDirectory={folder}")
        (archive,) = folder.glob("*.tar.gz")
        subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True, timeout=TIMEOUT)
        archive.unlink()

    return kept(name, coordinate, fetch)


def kept(name: str, what: str, fetch: Callable[[Path], None]) -> Path:
    """The cached folder of `what`; filled by `fetch` when it is not there, by one process at a time."""
    folder = cache_folder("servers") / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
        partial.mkdir()
        try:
            fetch(partial)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def _maven(goal: str, *arguments: str) -> None:
    # Without a folder of its own, Maven reads the pom.xml of the folder in which the tests are run.
    command = ["mvn", "-B", "-q", *arguments, f"{PLUGIN}:{goal}"]
    try:
        done = subprocess.run(
            command, cwd=cache_folder("servers"), capture_output=True, text=True, timeout=TIMEOUT
        )
    except FileNotFoundError:
        raise SetupError(
            "no-maven",
            "the tests' servers are fetched with mvn, which is not there",
            hint="on Debian and Ubuntu: apt-get install maven",
        ) from None
    except subprocess.TimeoutExpired:
        raise SetupError("no-server", f"no answer in {TIMEOUT} s: {' '.join(command)}") from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[:20])
        raise SetupError("no-server", f"{' '.join(command)} failed:\n{said}")
