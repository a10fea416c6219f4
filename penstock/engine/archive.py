"""An archive of loaded classes (AppCDS) for each set of jars: with it a JVM starts in half the time.

The first run is without one; when it is over, a process in the background makes it. An archive is found by
a key of all that it depends on, so a stale one is never used, and the JVM checks it once more.
PENSTOCK_CDS=off uses none and makes none; PENSTOCK_CDS=read uses those that are there.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.engine.cache import cache_folder
from penstock.engine.gateway import MODULE_OPTIONS, Launch, worker_path
from penstock.engine.java import find_java
from penstock.errors import SetupError

KEEP = 4
"""Archives that stay, the last used ones; each takes about 180 MB."""

TRAINING = 3
"""Counted up when the training does other work."""


def key_of(launch: Launch) -> str:
    """Names all that an archive for `launch` depends on.

    Heap, collector and compiler do not matter to it, so runs that differ in these share one.
    """
    key = hashlib.sha256()
    for part in (TRAINING, launch.java.command, launch.java.version, *MODULE_OPTIONS):
        key.update(f"{part}\n".encode())
    for jar in launch.class_path:
        stat = jar.stat()
        key.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return key.hexdigest()[:20]


def find(launch: Launch) -> Path | None:
    """The archive for `launch`. Its name ends with its size: a JVM crashes on one that was cut short."""
    for path in cache_folder("archives").glob(f"{key_of(launch)}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
        path.unlink(missing_ok=True)
    return None


def use(launch: Launch) -> tuple[str, ...]:
    """The flags that give `launch` its archive; when there is none, one is made after this process."""
    mode = os.environ.get("PENSTOCK_CDS", "")
    if mode == "off":
        return ()
    try:
        path = find(launch)
        if path is None:
            if mode != "read" and not failure(launch).exists():
                atexit.register(build_later, launch)
            # The JVM also takes an archive whose class path is the beginning of its own.
            path = find(Launch(launch.java))
        if path is None:
            return ()
        os.utime(path)  # those used last are kept
    except (OSError, SetupError):
        return ()  # only slower
    return (f"-XX:SharedArchiveFile={path}",)


def failure(launch: Launch) -> Path:
    """Where a maker that failed says why; as long as it is there, none is started in the background."""
    return cache_folder("archives") / f"{key_of(launch)}.failed"


def forget(flags: tuple[str, ...]) -> None:
    """Removes the archive that `use` gave, since the JVM did not start with it."""
    for flag in flags:
        Path(flag.partition("=")[2]).unlink(missing_ok=True)


def build_now(jars: Sequence[Path] = ()) -> Path:
    """Makes the archive for Spark with `jars`, unless it is there, and waits for it: half a minute."""
    launch = Launch(find_java(), tuple(jars))
    path = find(launch)
    if path is not None:
        return path
    made = subprocess.run(_command(launch), **_surroundings(), stderr=subprocess.PIPE, check=False)
    path = find(launch)
    if path is None:
        reason = made.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SetupError(
            "no-archive",
            f"the archive of classes was not made: {reason or f'code {made.returncode}'}",
            hint="Penstock works without it, only slower to start; PENSTOCK_CDS=off says so for good",
        )
    return path


def build_later(launch: Launch) -> None:
    """Makes the archive for `launch` in a process that outlives this one."""
    subprocess.Popen(_command(launch), **_surroundings(), stderr=subprocess.DEVNULL, start_new_session=True)


def keep(launch: Launch, partial: Path) -> None:
    """Gives a finished archive its name, and removes what nobody uses any more. Called by one at a time."""
    partial.replace(partial.with_name(f"{key_of(launch)}-{partial.stat().st_size}.jsa"))
    failure(launch).unlink(missing_ok=True)
    archives = sorted(partial.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in (*archives[:-KEEP], *partial.parent.glob("*.partial")):
        path.unlink(missing_ok=True)


def _command(launch: Launch) -> list[str]:
    return [sys.executable, "-m", "penstock.engine.training", *map(str, launch.jars)]


def _surroundings() -> dict[str, Any]:
    return {
        "cwd": cache_folder("archives"),
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(worker_path())},
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
    }
