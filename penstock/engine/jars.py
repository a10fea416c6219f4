"""Exact jars by Maven coordinates, fetched once.

Spark's own Ivy fetches each jar alone: dependencies are listed where they are needed, so that a version
never changes by itself. The local Maven cache is not read, since it may hold a pom without its jar.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.cache import cache_folder
from penstock.engine.gateway import Launch, Starting
from penstock.engine.java import find_java
from penstock.errors import SetupError

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView

_COORDINATE = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+)")


def fetch(coordinates: Sequence[str]) -> list[Path]:
    """The files of `group:artifact:version`s, in that order; what is not there yet is fetched."""
    paths = [jar_path(coordinate) for coordinate in coordinates]
    missing = {c: path for c, path in zip(coordinates, paths, strict=True) if not path.is_file()}
    if missing:
        with _jvm() as jvm:
            for coordinate, path in missing.items():
                _fetch_one(jvm, coordinate, path)
    return paths


def jar_path(coordinate: str) -> Path:
    """Where the jar of a coordinate is kept, whether it is there or not."""
    match = _COORDINATE.fullmatch(coordinate)
    if match is None:
        raise SetupError(
            "bad-jar", f"'{coordinate}' is not a jar's coordinate", hint="write group:artifact:version"
        )
    group, artifact, version = match.groups()
    return cache_folder("jars") / f"{group}_{artifact}-{version}.jar"


@contextmanager
def _jvm() -> Iterator[JVMView]:
    """The JVM of this process, or one for a while: jars belong on the class path before Spark starts."""
    from pyspark import SparkContext

    if SparkContext._jvm is not None:
        yield SparkContext._jvm
        return
    starting = Starting(Launch(find_java()))
    try:
        yield starting.connect().jvm
    finally:
        starting.end()


def _fetch_one(jvm: JVMView, coordinate: str, path: Path) -> None:
    from py4j.protocol import Py4JJavaError

    maven = _object(jvm, "org.apache.spark.util.MavenUtils")
    nothing = jvm.scala.Option.empty()
    log = jvm.java.io.ByteArrayOutputStream()
    out = jvm.java.io.PrintStream(log)
    try:
        home = jvm.scala.Option.apply(str(cache_folder("ivy")))
        settings = maven.buildIvySettings(nothing, home, False, out)
        found = maven.resolveMavenCoordinates(
            coordinate, settings, nothing, False, _object(jvm, "scala.collection.immutable.Nil"), False, out
        )
    except Py4JJavaError as failure:
        raise _missing(coordinate, str(failure.java_exception.getMessage()), log.toString()) from None
    if found.isEmpty():
        raise _missing(coordinate, "nothing was found", log.toString())
    # Renamed at the end, so that a jar in the cache is always whole.
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    shutil.copyfile(found.head(), partial)
    partial.replace(path)


def _object(jvm: JVMView, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")


def _missing(coordinate: str, reason: str, log: str) -> SetupError:
    if len(set(re.findall(r"Host (\S+) not found", log))) > 1:
        reason = "no repository can be reached"
    return SetupError(
        "no-jar",
        f"cannot get the jar {coordinate}: {reason}",
        hint=f"check the network, or put the jar there yourself: {jar_path(coordinate)}",
    )
