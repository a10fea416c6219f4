"""How results and errors look: text for people, JSON for programs. Colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import typer

from penstock.errors import PenstockError


def emit(value: Any) -> None:
    """One JSON object on a line of stdout."""
    _line(json.dumps(value, ensure_ascii=False, default=str), sys.stdout)


def text(value: str) -> None:
    """A result for people, on stdout."""
    _line(value, sys.stdout)


def note(value: str) -> None:
    """A remark for people, on stderr."""
    _line(value, sys.stderr)


def _line(value: str, stream: TextIO) -> None:
    # In one piece: streams tell of themselves from their own threads.
    stream.write(f"{value}\n")
    stream.flush()


def in_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(value: str, colour: str, stream: TextIO) -> str:
    """`value` in bold `colour` where `stream` shows colours."""
    return typer.style(value, fg=colour, bold=True) if in_colour(stream) else value


def error(failure: PenstockError, *, as_json: bool) -> None:
    """The one way in which a failure is told. Secrets that came from references are hidden."""
    from penstock.config import hide

    if as_json:
        emit({"error": _hidden(failure.to_dict())})
        return
    head, _, rest = hide(failure.render()).partition(": ")
    note(f"{paint(head, 'red', sys.stderr)}: {rest}")


def _hidden(value: Any) -> Any:
    from penstock.config import hide

    if isinstance(value, dict):
        return {key: _hidden(inner) for key, inner in value.items()}
    return hide(value) if isinstance(value, str) else value


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table on stdout: as wide as the terminal, or as its contents when there is none."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text("" if value is None else str(value)) for value in row))
    terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout,
        no_color=not in_colour(sys.stdout),
        width=None if terminal else 100_000,
        highlight=False,
    )
    # Without a terminal nothing is wrapped, so neither may lines be padded to the console's width.
    console.print(shown, soft_wrap=not terminal)


def count(number: int, what: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size(value: int) -> str:
    """Bytes as people read them: `3.4 MB`."""
    number = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"
