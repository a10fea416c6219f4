"""Arguments that several commands take, and where their text comes from."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import InputError, SetupError


def complete_sql(incomplete: str) -> list[str]:
    """Folders and .sql files that begin like this."""
    folder, start = os.path.split(incomplete)
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(start)
        and (start.startswith(".") or not entry.name.startswith("."))
        and (entry.is_dir() or entry.name.endswith(".sql"))
    ]


def complete_system(incomplete: str) -> list[str]:
    """Names of connectors and formats that begin like this."""
    from importlib.metadata import entry_points

    groups = ("penstock.connectors", "penstock.formats")
    names = sorted({point.name for group in groups for point in entry_points(group=group)})
    return [name for name in names if name.startswith(incomplete)]


File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="A file of statements; - reads them from stdin.",
        autocompletion=complete_sql,
        show_default=False,
    ),
]
Execute = Annotated[
    str | None, typer.Option("--execute", "-e", metavar="SQL", help="Statements, in place of a file.")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="A project file, in place of penstock.yaml."),
]
StreamUri = Annotated[
    str,
    typer.Argument(metavar="URI", help="A stream: kafka://localhost:9092/news.", show_default=False),
]
StreamFormat = Annotated[
    str,
    typer.Option(
        "--format", "-f", metavar="ndjson|csv|msgpack|raw", help="How messages stand one after another."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="SIGN", help="What stands between values of CSV; tab is a tab."),
]
Quote = Annotated[
    str | None,
    typer.Option(
        "--quote", metavar="SIGN", help="The sign around values that hold delimiters; empty for none."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="NAME", help="Keep the place under this name, and go on there next time."
    ),
]
From = Annotated[
    str,
    typer.Option("--from", metavar="earliest|latest|TIME|SEQ", help="Where to begin."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME|now", help="Where to end; times are in UTC.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def statements(file: str | None, execute: str | None) -> tuple[str, str]:
    """The text of FILE, stdin or -e, and what its places are called."""
    if (file is None) == (execute is None):
        raise InputError("usage", "give a file of statements, - for stdin, or -e 'SELECT ...'")
    if execute is not None:
        return execute, "statement"
    assert file is not None
    if file == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin"), "stdin"
    return read(file), file


def read(file: str) -> str:
    """The text of a file of statements."""
    try:
        return _decoded(Path(file).read_bytes(), file)
    except FileNotFoundError:
        hint = f"to run a statement: -e '{file}'" if " " in file else None
        raise InputError("no-file", f"there is no file {file}", hint=hint) from None
    except IsADirectoryError:
        raise InputError("no-file", f"{file} is a folder, not a file") from None
    except (OSError, ValueError) as failure:
        raise SetupError("unreadable-file", f"cannot read {file}: {failure}") from None


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise InputError(
            "not-utf-8", f"{source} is not UTF-8 text (byte {failure.start})", hint="save it as UTF-8"
        ) from None
