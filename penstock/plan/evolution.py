"""Which streams follow new fields of their records, and how: those that take all columns, and found them."""

from __future__ import annotations

from dataclasses import replace

from penstock.connectors.base import Connector
from penstock.connectors.declarations import SchemaEvolution
from penstock.plan.nodes import Pipeline, Scan, Transform


def governed(pipeline: Pipeline, notes: list[str]) -> Pipeline:
    """The pipeline whose scans know what to do with new fields; `notes` get what is set without effect."""
    able = all(s.connector.takes_new_columns(s.options, s.format) for s in pipeline.sinks)
    return replace(pipeline, root=_over(pipeline.root, "evolve" if able else "freeze", notes))


def _over(node: Transform, default: SchemaEvolution, notes: list[str]) -> Transform:
    inputs = (
        _bound(n, default, notes) if isinstance(n, Scan) else _over(n, default, notes) for n in node.inputs
    )
    return replace(node, inputs=tuple(inputs))


def _bound(scan: Scan, default: SchemaEvolution, notes: list[str]) -> Scan:
    chosen, reason = scan.options.schema_evolution, _settled(scan)
    if reason is None:
        return replace(scan, evolution=chosen or default)
    if chosen is not None:
        notes.append(f"schema_evolution has no effect on {scan.label}: {reason}")
    return scan


def _settled(scan: Scan) -> str | None:
    """Why the columns of a source are settled; None when they are not."""
    if not scan.unbounded:
        return "it is no stream, and its columns are looked for each time"
    if scan.columns or scan.options.schema_file:
        return "its columns are declared"
    if type(scan.connector).unknown is Connector.unknown:
        return "it has the same columns always"
    return None if scan.used is None else "the statement names its columns"
