"""`penstock run`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import progress, render
from penstock.cli.arguments import Config, Execute, File, Json, statements
from penstock.cli.interrupt import Interruptible
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.api import Checked, Outcome, Ran, Running, Session
    from penstock.config import Project
    from penstock.plan.nodes import Write


_NEEDS_SPARK = re.compile(r"\b(SELECT|INSERT)\b", re.IGNORECASE)
_CHANGES_SPARK = re.compile(r"\bSET\s+spark\.", re.IGNORECASE)
"""Settings that Java would have to be started again for."""


def run(
    file: File = None,
    execute: Execute = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for the pipeline.")] = None,
    config: Config = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Streams read what there is, keep their place and end.")
    ] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Streams begin anew.")] = False,
    replace_running: Annotated[
        bool,
        typer.Option("--replace", help="A changed stream catches up beside the old, then takes its place."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Open sources and check targets, but move no row.")
    ] = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No bar, notes or summaries.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            help="Serve metrics for Prometheus at this port; 0 takes any.",
        ),
    ] = None,
) -> None:
    """Runs statements, in order.

    Example: penstock run -e "SELECT * FROM 'events.jsonl' INTO 'out/*.parquet'"
    """
    from penstock.config import find_project

    text, source = statements(file, execute)
    project = find_project(config)
    with _metrics(metrics_port, as_json=as_json, quiet=quiet), started_early(text, project):
        from penstock.api import Running, Session

        with Session(project) as session:
            report = _reporter(as_json)
            how = Running(
                name, dry_run, until_caught_up, reset, replace_running, tell=_teller(quiet), report=report
            )
            execute_all(session, text, source, how, as_json=as_json, quiet=quiet)


def _teller(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else render.note


def _reporter(as_json: bool) -> Callable[[dict[str, Any]], None]:
    return (lambda report: render.emit({"progress": report})) if as_json else lambda report: None


@contextmanager
def _metrics(port: int | None, *, as_json: bool, quiet: bool) -> Iterator[None]:
    if port is None:
        yield
        return
    from penstock.cli.serving import metrics_at

    with metrics_at(port) as address:
        if as_json:
            render.emit({"metrics": address})
        elif not quiet or port == 0:
            render.note(f"metrics: {address}")
        yield


@contextmanager
def started_early(text: str, project: Project) -> Iterator[None]:
    """Starts Java beside the imports and the check, when it is likely that `text` needs Spark."""
    if not _NEEDS_SPARK.search(text) or _CHANGES_SPARK.search(text):
        yield
        return
    from penstock.engine.session import abandon, prepare

    # Whatever is wrong with Java is told in its turn, after what is wrong with the statements.
    with suppress(PenstockError):
        secrets = project.secrets()
        connectors, formats = _named("penstock.connectors", text), _named("penstock.formats", text)
        prepare(
            master=project.resolved("master", secrets),
            settings=project.resolved("spark", secrets),
            jars=tuple(dict.fromkeys(jar for end in (*connectors, *formats) for jar in end.jars)),
            extensions=tuple(dict.fromkeys(name for each in connectors for name in each.extensions)),
        )
    try:
        yield
    finally:
        abandon()


def _named(group: str, text: str) -> list[Any]:
    """The connectors, or formats, whose names stand in `text`; each module loads only then."""
    from importlib.metadata import entry_points

    words = set(re.findall(r"\w+", text.lower()))
    return [point.load() for point in entry_points(group=group) if point.name in words]


def execute_all(
    session: Session,
    text: str,
    source: str,
    how: Running,
    *,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Runs `text` and shows the outcome of each statement as it comes."""
    checked = session.check(text, source)
    if not quiet:
        for note in checked.notes:
            render.note(f"note: {note}")
    outcomes = session.run_each(json_rows(checked) if as_json else checked, how)
    if sys.stderr.isatty() and not quiet and not as_json:
        outcomes = progress.watched(outcomes, lambda: session.opened, lambda: session.running)
    with Interruptible(session):
        for outcome in outcomes:
            show(outcome, as_json=as_json, quiet=quiet)


def json_rows(checked: Checked) -> Checked:
    """The same plans, whose rows for the terminal are JSON lines: all of them, unless a limit is set."""
    from penstock.plan.nodes import Pipeline

    def rewritten(sinks: Iterable[Write]) -> Iterator[Write]:
        for sink in sinks:
            if sink.connector.name == "terminal":
                changes = {"limit": 0, "as_json": True}
                given = sink.options.model_fields_set
                options = sink.options.model_copy(update={k: v for k, v in changes.items() if k not in given})
                sink = replace(sink, options=options)
            yield sink

    plans = (
        replace(plan, sinks=tuple(rewritten(plan.sinks))) if isinstance(plan, Pipeline) else plan
        for plan in checked.plans
    )
    return replace(checked, plans=tuple(plans))


def show(outcome: Outcome, *, as_json: bool, quiet: bool) -> None:
    """Answers go to stdout, and what was done to stderr."""
    from penstock.api import Done, Ran, Started, Table

    if isinstance(outcome, Ran):
        # Rows that were printed are the answer themselves: no other object stands between them.
        if as_json and outcome.id:
            render.emit({"ran": asdict(outcome)})
        elif not quiet:
            render.note(summary(outcome))
    elif isinstance(outcome, Started):
        if as_json:
            render.emit({"started": asdict(outcome)})
        elif not quiet:
            render.note(f"{outcome.name}: runs into {', '.join(outcome.sinks)}; Ctrl-C ends it")
    elif isinstance(outcome, Done):
        if as_json:
            render.emit({"done": outcome.message})
        elif not quiet:
            render.note(outcome.message)
    elif isinstance(outcome, Table):
        if as_json:
            rows = [dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows]
            render.emit({"table": outcome.title, "rows": rows})
        else:
            render.table(outcome.columns, outcome.rows)
    elif as_json:
        render.emit({"text": outcome.text})
    else:
        render.text(outcome.text)


def summary(ran: Ran) -> str:
    """What a pipeline did, on one line."""
    where = f" into {', '.join(ran.sinks)}" if ran.id else ""
    line = f"{ran.name}: {render.count(ran.rows, 'row')}{where} in {ran.seconds:.1f} s"
    if ran.rejected:
        kept = f"kept in {', '.join(ran.dead_letters)}" if ran.dead_letters else "left out"
        line += f"; {render.count(ran.rejected, 'bad record')} {kept}"
    if ran.refused:
        line += f"; {render.count(ran.refused, 'row')} refused"
    return line
