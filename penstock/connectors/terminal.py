"""The terminal: where rows go without INTO. Shows the first rows, of a stream those of each batch, and keeps
nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, Field

from penstock.connectors.base import Batch, Capabilities, Connector, Format, Refused, SinkOptions, Uri
from penstock.options import Value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from rich.table import Table

_WIDE = 10_000
"""Columns of what is not a terminal, so that a table in a file or a pipe is not squeezed."""
_NESTED = ("struct", "array", "map")
_NUMERIC = ("byte", "short", "integer", "long", "float", "double", "decimal")


class Sink(SinkOptions):
    limit: int = Field(20, ge=0, description="How many rows are shown; 0 shows all.")
    truncate: int = Field(0, ge=0, description="The longest text of a cell in the table; 0 cuts nothing.")
    as_json: bool = Field(
        False,
        description="Prints a JSON object on each line instead of a table.",
        validation_alias=AliasChoices("as_json", "json"),
    )


class Terminal(Connector):
    name = "terminal"
    aliases = ("print", "console", "stdout")
    schemes = ("terminal",)
    capabilities = Capabilities(append=True)
    Sink = Sink

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        return dict(uri.query)

    def takes_new_columns(self, sink: Any, format: Format | None) -> bool:
        return True

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        first = frame.limit(sink.limit + 1) if sink.limit else frame
        rows = (_as_json(first) if sink.as_json else _as_text(first)).collect()
        shown = rows[: sink.limit or None]
        if sink.as_json:
            sys.stdout.writelines(f"{row[0]}\n" for row in shown)
            sys.stdout.flush()
            return ()
        if rows or not batch.streaming:
            _print(_table(frame, shown, sink.truncate))
        if not rows and not batch.streaming:
            _print("no rows")
        if len(rows) > len(shown):
            # Counting reads the source to its end, so it comes after the rows are on the screen.
            _print(f"… and {frame.count() - len(shown):,} more")
        return ()


def _as_json(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.select(f.to_json(f.struct("*"), {"ignoreNullFields": "false"}))


def _as_text(frame: DataFrame) -> DataFrame:
    """Every value as Spark writes it, times in the session's zone."""
    from pyspark.sql import functions as f

    def text(name: str, kind: str) -> Column:
        if kind in _NESTED:
            return f.to_json(name, {"ignoreNullFields": "false"})
        return f.base64(name) if kind == "binary" else f.col(name).cast("string")

    # By position: a query may give two columns one name.
    kinds = [field.dataType.typeName() for field in frame.schema.fields]
    numbered = frame.toDF(*(f"c{i}" for i in range(len(kinds))))
    return numbered.select(*(text(f"c{i}", kind) for i, kind in enumerate(kinds)))


def _table(frame: DataFrame, rows: Sequence[Sequence[str | None]], truncate: int) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def cell(text: str | None) -> Text:
        if text is None:
            return Text("null", style="dim")
        return Text(text if not truncate or len(text) <= truncate else text[: truncate - 1] + "…")

    table = Table(box=box.ROUNDED, header_style="bold")
    for field in frame.schema.fields:
        right = field.dataType.typeName() in _NUMERIC
        table.add_column(Text(field.name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def _print(what: Table | str) -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    console.print(what, style="dim" if isinstance(what, str) else None)
