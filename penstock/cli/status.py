"""How a running stream looks on a terminal: one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.render import count, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.api import Pipeline


def lines(pipelines: Sequence[Pipeline]) -> RenderableType:
    """A line for each, cut where the terminal ends."""
    from rich.text import Text

    text = "\n".join(line(pipeline) for pipeline in pipelines)
    return Text(text, no_wrap=True, overflow="ellipsis")


def line(pipeline: Pipeline) -> str:
    """`orders: running, 1,200 rows in, 900 rows out, 350 rows/s, lag 12, batch 7 in 0.4 s, 3 bad`"""
    done = pipeline.progress
    parts = [pipeline.status]
    if done.batches:
        if done.rows_in is not None:
            parts.append(f"{count(done.rows_in, 'row')} in")
        if done.files_in is not None:
            parts.append(f"{count(done.files_in, 'file')} ({size(done.bytes_in or 0)}) in")
        parts += [f"{count(done.rows, 'row')} out", f"{done.rate.now():,.0f} rows/s"]
    if done.lag is not None:
        parts.append(f"lag {done.lag:,}")
    if done.last is not None and done.batch is not None:
        parts.append(f"batch {done.batch} in {done.last.seconds:.1f} s")
    counts = {"bad": done.rejected, "refused": done.refused, "late": done.late}
    parts += [f"{number:,} {what}" for what, number in counts.items() if number]
    return f"{pipeline.name}: {', '.join(parts)}"
