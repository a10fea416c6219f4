"""`penstock dlq`: dead letters, counted, shown and sent through again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import render
from penstock.cli.arguments import Config, Execute, File, Json, statements
from penstock.cli.interrupt import Interruptible

if TYPE_CHECKING:
    from penstock.engine.letterbox import Letter, Stage

_SHOWN = 120
"""Characters of a payload or an error in a table."""

Name = Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.", show_default=False)]


def ls(
    pipeline: Annotated[
        str | None,
        typer.Argument(metavar="PIPELINE", help="One pipeline, in place of all.", show_default=False),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Counts dead letters, by stage and source.

    Example: penstock dlq ls
    """
    from penstock.api import Session

    with Session(config) as session:
        names = [pipeline] if pipeline is not None else [standing.name for standing in session.standings()]
        found = [group for name in names for group in session.dead_letters(name).groups()]
    if as_json:
        for group in found:
            render.emit(asdict(group))
    elif found:
        rows = [
            (g.pipeline, g.stage, g.source, "not counted" if g.letters is None else g.letters, g.oldest,
             g.newest, g.place)
            for g in found
        ]  # fmt: skip
        render.table(("pipeline", "stage", "source", "letters", "oldest", "newest", "where"), rows)
    else:
        render.note("there are no dead letters")


def show(
    pipeline: Name,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many are shown.")] = 20,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Shows dead letters, oldest first.

    Example: penstock dlq show orders --limit 5
    """
    from penstock.api import Session

    with Session(config) as session:
        box = session.dead_letters(pipeline)
        found = box.letters(limit)
    for place in box.elsewhere:
        render.note(f"note: those in {place} are not shown; read them there")
    if as_json:
        for letter in found:
            render.emit(asdict(letter))
    elif found:
        columns = ("time", "stage", "source", "position", "error", "payload")
        render.table(columns, [_row(letter) for letter in found])
    else:
        render.note(f"there are no dead letters of {pipeline}")


def _row(letter: Letter) -> tuple[str, ...]:
    parts = (letter.position or {}).items()
    position = ", ".join(f"{key} {value}" for key, value in parts if not isinstance(value, list))
    return letter.time, letter.stage, letter.source, position, _cut(letter.error), _cut(letter.payload or "")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def replay(
    pipeline: Name,
    file: File = None,
    execute: Execute = None,
    stage: Annotated[
        str | None,
        typer.Option("--stage", metavar="read|query|write", help="Only letters of this stage."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the letters, but move none.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Sends dead letters through their pipeline again.

    Those that fail again stay. Without FILE, the statement that ran last is taken.

    Example: penstock dlq replay orders orders.sql
    """
    from penstock.api import Session

    given = file is not None or execute is not None
    text, source = statements(file, execute) if given else (None, "statement")
    chosen = _stage(stage)
    with Session(config) as session:
        tell = (lambda text: None) if as_json else render.note
        with Interruptible(session):
            done = session.replay(pipeline, text, source, stage=chosen, dry=dry_run, tell=tell)
    if as_json:
        render.emit({"replayed": asdict(done)})
        return
    verb = "would go through again" if dry_run else "replayed"
    line = f"{pipeline}: {_count(done.letters)} {verb}"
    if not dry_run:
        line += f", {done.rows:,} row{'' if done.rows == 1 else 's'} delivered, {done.again:,} failed again"
    render.note(line + (f"; {_count(done.left)} not tried" if done.left else ""))


def _stage(given: str | None) -> Stage | None:
    from penstock.engine.letterbox import STAGES
    from penstock.errors import InputError

    found = next((stage for stage in STAGES if stage == given), None)
    if given is not None and found is None:
        raise InputError("usage", f"--stage takes {', '.join(STAGES)}, not '{given}'")
    return found


def _count(letters: int) -> str:
    return f"{letters:,} letter{'' if letters == 1 else 's'}"
