"""Exact sets of files from the Maven registry, fetched once into the cache folder."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.cached import TIMEOUT, kept, run

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

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


def _maven(goal: str, *arguments: str) -> None:
    run("maven", ["mvn", "-B", "-q", *arguments, f"{PLUGIN}:{goal}"])
