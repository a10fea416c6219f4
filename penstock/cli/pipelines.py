"""Commands for pipelines that run, or have run, in any process: `ps`, `stop`, `reset`. None starts Spark."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import render
from penstock.cli.arguments import Config, Json
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.engine.standing import Standing


def complete_pipeline(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of pipelines that begin like this."""
    from penstock.api import Session

    # Whatever is wrong is told when the command runs.
    with suppress(Exception), Session(ctx.params.get("config")) as session:
        return [p.name for p in session.standings() if p.name.startswith(incomplete)]
    return []


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A pipeline, as 'penstock ps --all' shows it.",
        autocompletion=complete_pipeline,
        show_default=False,
    ),
]


def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also those that do not run.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Lists pipelines that run, and those whose process died.

    Example: penstock ps --all
    """
    from penstock.api import Session

    with Session(config) as session:
        found = session.standings()
    shown = [one for one in found if every or one.active]
    if as_json:
        for one in shown:
            render.emit(asdict(one))
        return
    if shown:
        columns = ("name", "state", "since", "by", "batches", "lag", "from", "into")
        render.table(columns, [_row(one) for one in shown])
    elif found:
        render.note("no pipeline runs; --all shows those that ran")
    else:
        render.note("no pipeline has run yet")


def _row(one: Standing) -> tuple[object, ...]:
    by = one.holder and f"{one.holder['user']}@{one.holder['host']} {one.holder['process']}"
    ends = (", ".join(one.inputs), ", ".join(one.outputs))
    return (one.name, one.state, _ago(one.since), by, one.batches, one.lag, *ends)


def _ago(since: str) -> str:
    """`5 min ago`."""
    seconds = int((datetime.now(timezone.utc) - datetime.fromisoformat(since)).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{max(0, seconds)} s ago"


def stop(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.")] = True,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Ends a running pipeline after the batch at hand.

    Example: penstock stop orders
    """
    from penstock.api import Session

    with Session(config) as session:
        asked = session.ask_to_stop(name)
        if wait and not as_json:
            render.note(f"{asked.name}: ends after the batch at hand ({asked.holder})")
        state = asked.wait() if wait else "stopping"
        if as_json:
            render.emit({"name": asked.name, "state": state})
        else:
            render.note(f"{asked.name}: {_ended(state) if wait else 'was asked to end'}")


def _ended(state: str) -> str:
    return "its process died; the next run goes on from the last whole batch" if state == "dead" else state


def reset(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Lets a pipeline begin anew: it forgets its position. What it has written stays.

    Example: penstock reset orders --yes
    """
    from penstock.api import Session

    with Session(config) as session:
        if not yes:
            _confirm(name)
        kept = session.reset(name)
        if as_json:
            render.emit({"name": name, "kept": kept})
        else:
            render.note(f"{name}: begins anew when it is next run; what it kept stays in {kept}")


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise InputError("not-confirmed", f"'{name}' would forget its position", hint="say --yes to mean it")
    typer.confirm(f"{name} forgets its position and reads its sources anew. Go on?", abort=True, err=True)
