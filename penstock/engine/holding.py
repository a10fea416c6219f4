"""A pipeline while it runs: its lease, and what the catalog and its folder tell of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.catalog import Catalog, PipelineEntry
from penstock.engine.leases import Lease
from penstock.engine.session import own_processes
from penstock.engine.state import State
from penstock.plan import explain
from penstock.plan.nodes import Pipeline
from penstock.sql.secrets import replace_secrets


def register(catalog: Catalog, plan: Pipeline, name: str) -> PipelineEntry:
    """The pipeline of this name, in the catalog from now on."""
    return catalog.register(name, _statement(plan), *_ends(plan))


@contextmanager
def held(
    catalog: Catalog,
    entry: PipelineEntry,
    plan: Pipeline,
    state: State,
    stop: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Lease, PipelineEntry]]:
    """The right to run a pipeline; says in the catalog that it runs. `stop` is called when somebody asks."""
    with Lease(catalog, entry, processes=own_processes(), stop=stop) as lease:
        started = catalog.start(entry.id, _statement(plan), *_ends(plan))
        state.describe(_statement(plan), explain.to_dict(plan))
        yield lease, started


def _statement(plan: Pipeline) -> str:
    # Invariant 8
    return replace_secrets(plan.statement, lambda _key, _secret: "***")


def _ends(plan: Pipeline) -> tuple[list[str], list[str]]:
    return [scan.label for scan in plan.root.scans()], [sink.label for sink in plan.sinks]
