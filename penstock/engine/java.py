"""Finds the Java that runs Spark, without starting one where its version is written down."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import SetupError

OLDEST = 17
"""Spark 4.1 needs Java 17; it is released for 17 and 21, and newer ones run it."""

HINT = "install Java 17 or 21 (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to one"

_VERSION = re.compile(r'^(?:JAVA_VERSION=|\w+ version )"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Java:
    """A `java` command and the version of it."""

    command: Path
    version: str

    @property
    def major(self) -> int:
        """17 for 17.0.15, 8 for 1.8.0_392."""
        parts = re.findall(r"\d+", self.version)
        return int(parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0])

    @property
    def home(self) -> Path:
        return self.command.parent.parent


def find_java() -> Java:
    """The first of JAVA_HOME and PATH that is new enough; the error says what was tried."""
    tried: list[str] = []
    too_old = False
    for origin, command in _candidates():
        java = _inspect(command) if command else None
        if java is None:
            tried.append(f"{origin}: no Java there")
        elif java.major < OLDEST:
            too_old = True
            tried.append(f"{origin}: Java {java.version} ({java.command})")
        else:
            return java
    what = "; ".join(tried)
    if too_old:
        raise SetupError("wrong-java", f"Spark needs Java {OLDEST} or newer. Tried {what}", hint=HINT)
    raise SetupError("no-java", f"no Java found. Tried {what}", hint=HINT)


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home, "bin", "java")
        yield f"JAVA_HOME={home}", command if os.access(command, os.X_OK) else None
    else:
        yield "JAVA_HOME (not set)", None
    found = shutil.which("java")
    yield "PATH", Path(found) if found else None


def _inspect(command: Path) -> Java | None:
    """Reads the version from the `release` file beside Java, or asks Java itself."""
    command = command.resolve()
    try:
        text = (command.parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = _VERSION.search(text) or _VERSION.search(_ask(command))
    return Java(command, match[1]) if match and re.match(r"\d", match[1]) else None


def _ask(command: Path) -> str:
    try:
        answer = subprocess.run(
            [str(command), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout
