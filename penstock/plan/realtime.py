"""Real-time mode: rows pass one by one, in milliseconds, in place of batches; and what stands in its way.

Spark then calls nobody between reading and writing: one source, one sink, at least once, no dead letters.
"""

from __future__ import annotations

from penstock.plan.nodes import Pipeline

_DECODED_BY_SPARK = ("json", "text", "binary")


def is_wanted(pipeline: Pipeline) -> bool:
    """Whether an end of the pipeline asks for it, by itself or by its profile."""
    return any(getattr(end.options, "real_time", False) for end in pipeline.ends)


def obstacle(pipeline: Pipeline) -> str | None:
    """Why it cannot be, as far as the statement tells; None when nothing is in the way."""
    scans = list(pipeline.root.scans())
    if len(scans) != 1 or len(pipeline.sinks) != 1:
        return "it moves from one source to one sink"
    (scan,), (sink,) = scans, pipeline.sinks
    if not (scan.connector.passes_in_real_time and sink.connector.passes_in_real_time):
        return "it moves between message systems, such as Kafka"
    if scan.options.on_error != "fail" or sink.options.on_error != "fail":
        return "it keeps no dead letters, so that on_error must be 'fail'"
    if sink.connector.needs_parts(sink.options):
        return "it delivers at least once, and exactly once was asked for"
    if sink.options.rate_limit is not None or sink.options.batch_timeout is not None:
        return "it has no batches to hold back, as rate_limit and batch_timeout do"
    if scan.evolution not in (None, "discard_value"):
        return f"it does not look for new fields, as schema_evolution = '{scan.evolution}' does"
    formats = [end.format.name for end in (scan, sink) if end.format is not None]
    others = [name for name in formats if name not in _DECODED_BY_SPARK]
    return f"format '{others[0]}' is decoded outside of Spark" if others else None
