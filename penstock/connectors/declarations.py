"""What a connector declares of itself: what it can do, and the options that all sources and sinks take."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Literal

from pydantic import Field

from penstock.options import Duration, Options

SchemaEvolution = Literal["evolve", "freeze", "discard_row", "discard_value"]


@dataclass(frozen=True)
class Capabilities:
    """What a connector can do; each one selects the tests of the conformance suite that it must pass."""

    bounded: bool = False
    """Reads what there is, and ends."""
    unbounded: bool = False
    """Goes on reading as rows arrive."""
    replay: bool = False
    """Reads the same rows again from a position."""
    lookup: bool = False
    """Finds rows by key, for joins."""
    formats: bool = False
    """Carries bytes, so rows have a `format`."""
    append: bool = False
    """Adds rows to a target."""
    overwrite: bool = False
    """Puts rows in place of those that were there."""
    upsert: bool = False
    delete: bool = False
    transactional: bool = False
    """Keeps the batch's number with its rows, so that a batch that runs again changes nothing."""
    create_target: bool = False
    """Makes a target that is not there yet."""
    evolve_schema: bool = False

    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self) if getattr(self, f.name))


class SourceOptions(Options):
    """Options that every source takes."""

    on_error: Literal["fail", "skip", "dead_letter"] = Field(
        "fail",
        description="What happens to a record that cannot be read, or that a CAST fails on: `fail` stops,"
        " `skip` drops and counts it, `dead_letter` keeps it aside.",
    )
    dead_letter: str | None = Field(
        None, description="Where dead letters go; a folder of the pipeline's state unless set."
    )
    schema_file: str | None = Field(None, description="An Avro schema (.avsc) that declares the columns.")
    schema_evolution: SchemaEvolution | None = Field(
        None,
        description="What happens when records of a stream have fields that its discovered columns lack, and"
        " the query takes all columns: `evolve` adds them, `freeze` stops, `discard_row` drops such rows,"
        " `discard_value` such fields. `evolve` unless set, or `freeze` where a sink takes no new columns.",
    )
    trigger: Duration | None = Field(
        None, description="The least time between the beginnings of two batches of a stream."
    )


class SinkOptions(Options):
    """Options that every sink takes."""

    mode: Literal["append", "overwrite"] | None = Field(
        None, description="What to do with rows that are in the target already: keep or replace them."
    )
    batch_size: int | None = Field(
        None, gt=0, description="Rows that are worth a batch of a stream; fewer wait for `batch_timeout`."
    )
    batch_timeout: Duration | None = Field(
        None, description="How long rows of a stream wait at most until they are delivered."
    )
    trigger: Duration | None = Field(
        None, description="The least time between the beginnings of two batches of a stream."
    )
    rate_limit: float | None = Field(None, gt=0, description="Rows a second that are delivered at most.")
    retries: int = Field(10, ge=0, description="How often a delivery that failed is tried again.")
    retry_backoff: Duration = Field(
        timedelta(seconds=1),
        description="How long the first retry waits; each further one waits twice as long, a minute at most.",
    )
    on_error: Literal["fail", "skip", "dead_letter"] = Field(
        "fail",
        description="What happens to a row that the target refuses: `fail` stops, `skip` drops and counts it,"
        " `dead_letter` keeps it aside.",
    )
    dead_letter: str | None = Field(
        None, description="Where dead letters go; a folder of the pipeline's state unless set."
    )
