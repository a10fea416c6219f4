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

from penstock.engine.cache import cache_folder, locked
from penstock.engine.gateway import Launch, Starting
from penstock.engine.java import find_java
from penstock.errors import SetupError

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView

_COORDINATE = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+)(?::([\w.-]+))?")


def fetch(coordinates: Sequence[str]) -> list[Path]:
    """The files of `group:artifact:version[:classifier]`s, in that order; what is missing is fetched."""
    paths = {coordinate: jar_path(coordinate) for coordinate in coordinates}
    if not all(path.is_file() for path in paths.values()):
        # Ivy names files of its cache that another process is still writing.
        with locked(cache_folder("ivy")), _jvm() as jvm:
            for coordinate, path in paths.items():
                if not path.is_file():
                    _fetch_one(jvm, coordinate, path)
    return [paths[coordinate] for coordinate in coordinates]


def jar_path(coordinate: str) -> Path:
    """Where the jar of a coordinate is kept, whether it is there or not."""
    group, artifact, version, classifier = _parts(coordinate)
    name = "-".join(filter(None, (artifact, version, classifier)))
    return cache_folder("jars") / f"{group}_{name}.jar"


def _parts(coordinate: str) -> tuple[str, str, str, str | None]:
    match = _COORDINATE.fullmatch(coordinate)
    if match is None:
        raise SetupError(
            "bad-jar",
            f"'{coordinate}' is not a jar's coordinate",
            hint="write group:artifact:version, or group:artifact:version:classifier",
        )
    group, artifact, version, classifier = match.groups()
    return group, artifact, version, classifier


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
    log = jvm.java.io.ByteArrayOutputStream()
    out = jvm.java.io.PrintStream(log)
    shown = jvm.java.lang.System.out
    try:
        jvm.java.lang.System.setOut(out)  # Ivy prints what it does
        home = jvm.scala.Option.apply(str(cache_folder("ivy")))
        ivy = jvm.org.apache.ivy.Ivy.newInstance(
            maven.buildIvySettings(jvm.scala.Option.empty(), home, False, out)
        )
        wanted = _wanted(jvm, coordinate)
        options = jvm.org.apache.ivy.core.resolve.ResolveOptions()
        options.setTransitive(False)
        options.setConfs(wanted.getConfigurationsNames())
        found = ivy.resolve(wanted, options).getAllArtifactsReports()
    except Py4JJavaError as failure:
        raise _missing(coordinate, str(failure.java_exception.getMessage()), log.toString()) from None
    finally:
        jvm.java.lang.System.setOut(shown)
    file = found[0].getLocalFile() if len(found) else None
    if file is None:
        raise _missing(coordinate, "not found in any repository", log.toString())
    # Renamed at the end, so that a jar in the cache is always whole.
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    shutil.copyfile(file.getPath(), partial)
    partial.replace(path)


def _wanted(jvm: JVMView, coordinate: str) -> Any:
    """A module that needs one jar."""
    group, artifact, version, classifier = _parts(coordinate)
    module = jvm.org.apache.ivy.core.module.descriptor
    ids = jvm.org.apache.ivy.core.module.id.ModuleRevisionId
    wanted = module.DefaultModuleDescriptor.newDefaultInstance(ids.newInstance("penstock", "jar", "1"))
    jar = module.DefaultDependencyDescriptor(
        wanted, ids.newInstance(group, artifact, version), False, False, False
    )
    jar.addDependencyConfiguration("default", "default" if classifier else "master")
    if classifier:
        more = jvm.java.util.HashMap()
        more.put("m:classifier", classifier)
        jar.addDependencyArtifact(
            "default", module.DefaultDependencyArtifactDescriptor(jar, artifact, "jar", "jar", None, more)
        )
    wanted.addDependency(jar)
    return wanted


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
