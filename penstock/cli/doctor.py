"""`penstock doctor`: what on this machine or in the settings would keep statements from running."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.cli import render
from penstock.cli.arguments import Config, Json
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.config import Project
    from penstock.engine.java import Java

WRONG = 3


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `hint` mends it."""

    name: str
    ok: bool
    message: str
    hint: str | None = None


def doctor(config: Config = None, as_json: Json = False) -> None:
    """Says what is wrong here, and how to mend it.

    Example: penstock doctor --config configs/prod.yaml
    """
    wrong = False
    for check in checks(config):
        wrong |= not check.ok
        _show(check, as_json=as_json)
    if wrong:
        raise typer.Exit(WRONG)


def _show(check: Check, *, as_json: bool) -> None:
    if as_json:
        render.emit(asdict(check))
        return
    word = (
        render.paint("ok   ", "green", sys.stdout) if check.ok else render.paint("wrong", "red", sys.stdout)
    )
    render.text(f"{word} {check.name}: {check.message}" + (f"; {check.hint}" if check.hint else ""))


def checks(config: Path | None) -> Iterator[Check]:
    """All that there is to look at, the machine first."""
    from penstock.config import find_project

    yield _packages()
    yield from _engine()
    try:
        project = find_project(config)
        state = str(project.resolved("state"))
    except PenstockError as failure:
        yield _failed("config", failure)
        return
    yield Check("config", True, str(config or "penstock.yaml") if config or _has_project() else "defaults")
    yield _state(state)
    yield from _secrets(project)
    yield from _servers(project)


def _packages() -> Check:
    """Whether what Penstock requires is installed, in the versions that it requires."""
    bad = []
    for requirement in metadata.requires("penstock") or ():
        wanted = re.fullmatch(r"([\w.-]+)\s*([^;]*)", requirement)
        if wanted is None:
            continue  # that of an extra
        try:
            version = metadata.version(wanted[1])
        except metadata.PackageNotFoundError:
            bad.append(f"{wanted[1]} is missing")
            continue
        if not _fits(version, wanted[2]):
            bad.append(f"{wanted[1]} is {version}, not {wanted[2].strip()}")
    python = ".".join(map(str, sys.version_info[:3]))
    if bad:
        return Check("packages", False, "; ".join(bad), "pip install --upgrade penstock")
    return Check("packages", True, f"Python {python}, PySpark {metadata.version('pyspark')}")


def _fits(version: str, wanted: str) -> bool:
    """Whether a version is within bounds such as `<4.2,>=4.1.3`."""
    for operator, bound in re.findall(r"(>=|<)\s*([\d.]+)", wanted):
        if (_numbers(version) >= _numbers(bound)) != (operator == ">="):
            return False
    return True


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _engine() -> Iterator[Check]:
    """Java, Spark, and what Penstock keeps of both between runs."""
    from penstock.engine.gateway import spark_home
    from penstock.engine.java import find_java

    try:
        java = find_java()
        yield Check("java", True, f"Java {java.version} ({java.command})")
        yield _spark(spark_home())
        yield _jars()
        yield _archive(java)
    except PenstockError as failure:
        yield _failed("java" if "java" in failure.code else "spark", failure)
    except OSError as failure:
        hint = "give yourself the right to write there, or set PENSTOCK_CACHE to another folder"
        yield Check("cache", False, f"{failure.filename}: {failure.strerror}", hint)


def _spark(installed: Path) -> Check:
    from penstock.engine.machine import cores, heap

    home = Path(os.environ.get("SPARK_HOME") or installed)
    core = next(home.glob("jars/spark-core_*.jar"), None)
    if core is None:
        return Check("spark", False, f"{home} has no Spark", "unset SPARK_HOME, or install penstock again")
    version = core.stem.rpartition("-")[2]
    if version.rpartition(".")[0] != metadata.version("pyspark").rpartition(".")[0]:
        message = f"SPARK_HOME={home} is Spark {version}, but PySpark is {metadata.version('pyspark')}"
        return Check("spark", False, message, "unset SPARK_HOME, or set it to a Spark of PySpark's version")
    return Check("spark", True, f"Spark {version}; {cores()} cores and a heap of {heap()} when it runs here")


def _jars() -> Check:
    from penstock.connectors.registry import all_connectors
    from penstock.engine.jars import jar_path
    from penstock.formats.registry import all_formats

    connectors = all_connectors().values()
    wanted = {jar for connector in connectors for jar in (*connector.jars, *connector.private_jars)}
    wanted |= {jar for format in all_formats().values() for jar in format.jars}
    there = sum(jar_path(jar).is_file() for jar in wanted)
    rest = "" if there == len(wanted) else "; the others are fetched when a statement needs them"
    return Check("jars", True, f"{there} of {len(wanted)} are here{rest}")


def _archive(java: Java) -> Check:
    """The archive of loaded classes only makes Spark start sooner, so nothing about it is wrong."""
    from penstock.engine.archive import find
    from penstock.engine.gateway import Launch

    if os.environ.get("PENSTOCK_CDS") == "off":
        return Check("archive", True, "not used, as PENSTOCK_CDS=off says")
    return Check("archive", True, str(find(Launch(java)) or "not made yet; the first run makes it"))


def _failed(name: str, failure: PenstockError) -> Check:
    """An error as a line."""
    from penstock.config import hide

    where = f" ({failure.at})" if failure.at else ""
    return Check(name, False, hide(failure.message) + where, failure.hint)


def _has_project() -> bool:
    return Path("penstock.yaml").exists()


def _state(state: str) -> Check:
    """Whether the state folder, or the one that it would be made in, can be written."""
    if "://" in state:
        return Check("state", True, f"{state}, which Spark writes")
    folder = Path(state).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    hint = "give yourself the right to write there, or set another folder with `state:`"
    if not there.is_dir():
        return Check("state", False, f"{there} is not a folder", hint)
    if not os.access(there, os.W_OK | os.X_OK):
        return Check("state", False, f"{there} cannot be written", hint)
    return Check("state", True, str(folder) if there == folder else f"{folder} (not made yet)")


def _secrets(project: Project) -> Iterator[Check]:
    """One line for each reference that leads nowhere, or one that says all is well."""
    from penstock.config import has_reference, resolve

    unset, found = False, 0
    store = project.secrets()
    endpoints = (*project.data_sources.values(), *project.defaults.values())
    settings = [s for endpoint in endpoints for s in endpoint.settings]
    places = [(s.key, s.value, s.at) for s in settings]
    places += [(key, getattr(project, key), project.at(key)) for key in ("master", "streams", "warehouse")]
    places += [(key, value, project.at(f"spark.{key}")) for key, value in project.spark.items()]
    for key, value, at in places:
        if has_reference(value):
            found += 1
            try:
                resolve(value, key=key, at=at, secrets=store)
            except PenstockError as failure:
                unset = True
                yield _failed("secret", failure)
    if found and not unset:
        yield Check("secrets", True, f"{found} found")


def _servers(project: Project) -> Iterator[Check]:
    from penstock.cli import servers

    named = servers.named(project)
    silent = servers.unanswered(named)
    for (host, port), who in named.items():
        why = silent.get((host, port))
        hint = "start it, or mend its address or the network between" if why else None
        yield Check(
            "server", why is None, f"{host}:{port} of {who}" + (f": {why}" if why else " answers"), hint
        )
