"""Dead letters of a session's pipelines: where they lie, and how they go through again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.api.outcomes import Checked
from penstock.catalog import PipelineEntry
from penstock.engine.letterbox import Letterbox, Stage
from penstock.engine.state import State
from penstock.errors import InputError, PenstockError
from penstock.plan.nodes import Pipeline, Write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.api.session import Session
    from penstock.engine.replaying import Replayed

_MASKED = "***"


def letterbox(session: Session, entry: PipelineEntry, more: Iterable[Write] = ()) -> Letterbox:
    """Where the letters of a pipeline lie: its folder, the places of its last statement, and `more`."""
    state = State(session.state, entry.id)
    try:
        plans = session.check(entry.statement, f"pipeline {entry.name}").plans
    except PenstockError:  # a name or a secret in it is gone by now
        plans = ()
    places = [place for plan in plans if isinstance(plan, Pipeline) for place in plan.dead_letters()]
    done = state.batches() if state.checkpoint.exists() else entry.batches
    return Letterbox(entry.name, state, [*places, *more], done)


def statement_of(session: Session, entry: PipelineEntry, text: str | None, source: str) -> Checked:
    """What letters go through: a text, or the statement that ran last."""
    if text is None and _MASKED in entry.statement:
        raise InputError(
            "masked-statement",
            f"the statement of '{entry.name}' is kept without its secrets",
            hint=f"give the file that it is in: penstock dlq replay {entry.name} FILE.sql",
        )
    return session.check(entry.statement if text is None else text, source)


def pipeline_in(checked: Checked, name: str, names: Iterable[str]) -> Pipeline:
    """The pipeline of a name, or the only one."""
    found = [plan for plan in checked.plans if isinstance(plan, Pipeline)]
    fits = [plan for plan, own in zip(found, names, strict=True) if own.lower() == name.lower()]
    if len(found) != 1 and len(fits) != 1:
        hint = "give one with a single SELECT ... INTO, or the file that the pipeline was run from"
        raise InputError("no-pipeline", f"{checked.source} has no statement for '{name}'", hint=hint)
    return (fits or found)[0]


def replay(
    session: Session,
    entry: PipelineEntry,
    plan: Pipeline,
    open_spark: Callable[[], SparkSession],
    *,
    stage: Stage | None,
    dry: bool,
    tell: Callable[[str], None],
) -> Replayed:
    """Sends the letters of a pipeline through `plan`."""
    from penstock.engine.leases import refuse_if_held
    from penstock.engine.replaying import Replay, Replayed, choose

    box = letterbox(session, entry, plan.dead_letters())
    if dry:
        letters = sum(file.letters for file in choose(plan, box, stage))
        return Replayed(letters, 0, 0, sum(group.letters or 0 for group in box.groups()) - letters)
    refuse_if_held(session.catalog, entry)
    work = Replay(open_spark(), plan, entry, State(session.state, entry.id), tell)
    return work.run(session.catalog, lambda: letterbox(session, entry, plan.dead_letters()), stage)
