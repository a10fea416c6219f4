"""How pipelines stand, seen from any process: by the catalog, their leases and folders. Starts no JVM."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog import Catalog, PipelineEntry
from penstock.engine.leases import Holder, held_now, is_over
from penstock.engine.state import State
from penstock.errors import InputError, RunError, did_you_mean

_EVERY = 0.2
_ACTIVE = ("running", "stopping", "dead")


@dataclass(frozen=True)
class Standing:
    """A pipeline, and who runs it."""

    name: str
    id: str
    state: str
    """`new`, `running`, `stopping`, `finished`, `stopped`, `failed`; `dead` when its process is gone."""
    holder: dict[str, Any] | None
    """User, host and process that runs it, or did when it died."""
    since: str
    """When this state began."""
    batches: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lag: int | None
    """Records that a running stream had not read when it last told."""

    @property
    def active(self) -> bool:
        return self.state in _ACTIVE


def standings(catalog: Catalog, root: Path) -> list[Standing]:
    """All pipelines, by name."""
    return [_standing(catalog, entry, root) for entry in catalog.pipelines()]


def _standing(catalog: Catalog, entry: PipelineEntry, root: Path) -> Standing:
    lease = catalog.lease(entry.id)
    state, folder = entry.state, State(root, entry.id)
    if lease is not None and not is_over(lease):
        state = "stopping" if lease.stop else "running"
    elif state == "running":
        state = "dead"
    return Standing(
        name=entry.name,
        id=entry.id,
        state=state,
        holder=_holder(lease.holder) if lease is not None and state in _ACTIVE else None,
        since=entry.updated,
        # What a stream has done since it was started is in its folder first.
        batches=max(entry.batches, folder.batches()),
        inputs=entry.inputs,
        outputs=entry.outputs,
        lag=folder.told().get("lag") if state in ("running", "stopping") else None,
    )


def _holder(text: str) -> dict[str, Any]:
    holder = Holder.parse(text)
    return {"user": holder.user, "host": holder.host, "process": holder.processes[0][0]}


def is_running(catalog: Catalog, name: str) -> bool:
    """Whether a process runs the pipeline of this name."""
    entry = catalog.pipeline(name)
    return entry is not None and held_now(catalog, entry) is not None


class Asked:
    """A pipeline that was asked to stop."""

    def __init__(self, catalog: Catalog, entry: PipelineEntry, fence: int, holder: Holder) -> None:
        self.name, self.holder = entry.name, holder
        self._catalog, self._id, self._fence = catalog, entry.id, fence

    def wait(self) -> str:
        """How it ended, once it has."""
        while True:
            lease = self._catalog.lease(self._id)
            if lease is None or lease.fence != self._fence or is_over(lease):
                break
            time.sleep(_EVERY)
        entry = self._catalog.pipeline(self.name)
        return "dead" if entry is None or entry.state == "running" else entry.state


def ask_to_stop(catalog: Catalog, name: str) -> Asked:
    """Tells the process that runs a pipeline to end it after the batch at hand."""
    entry = named(catalog, name)
    lease = catalog.lease(entry.id)
    if lease is None or is_over(lease):
        raise RunError(
            "not-running",
            f"pipeline '{entry.name}' does not run",
            hint="penstock ps shows those that do",
        )
    catalog.ask_to_stop(entry.id)
    return Asked(catalog, entry, lease.fence, Holder.parse(lease.holder))


def named(catalog: Catalog, name: str) -> PipelineEntry:
    """The pipeline of a name."""
    entry = catalog.pipeline(name)
    if entry is None:
        known = [p.name for p in catalog.pipelines()]
        hint = did_you_mean(name, known) if known else "none has run yet"
        raise InputError("unknown-pipeline", f"there is no pipeline '{name}'", hint=hint)
    return entry
