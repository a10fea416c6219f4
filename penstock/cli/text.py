"""Commands that only read statements: `check`, `fmt` and `explain`."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import render
from penstock.cli.arguments import Config, Execute, File, Json, complete_sql, statements
from penstock.errors import InputError, SetupError

if TYPE_CHECKING:
    from penstock.api import Checked, Session
    from penstock.connectors.scanned import Scanned
    from penstock.plan.nodes import Plan

NOT_FORMATTED = 2


def check(file: File = None, execute: Execute = None, config: Config = None, as_json: Json = False) -> None:
    """Finds what is wrong with statements, without Spark.

    Example: penstock check daily.sql
    """
    from penstock.api import Session

    text, source = statements(file, execute)
    with Session(config) as session:
        checked = session.check(text, source)
    count = len(checked.plans)
    if as_json:
        render.emit({"ok": True, "statements": count, "notes": list(checked.notes)})
        return
    for note in checked.notes:
        render.note(f"note: {note}")
    render.text(f"ok: {count} statement{'' if count == 1 else 's'}")


def fmt(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Files of statements; - reads them from stdin.",
            autocompletion=complete_sql,
            show_default=False,
        ),
    ] = None,
    execute: Execute = None,
    write: Annotated[bool, typer.Option("--write", "-w", help="Change the files in place.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print a diff, and exit with 2 if there is one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Lays statements out. Their meaning and comments stay.

    Example: penstock fmt --write daily.sql
    """
    if write and (check or execute is not None or not files or "-" in files):
        raise InputError("usage", "--write takes files, and goes without --check")
    if files and execute is None:
        texts = [statements(file, None) for file in files]
    else:
        texts = [statements(files[0] if files else None, execute)]
    changed = [_format(text, source, write=write, check=check, as_json=as_json) for text, source in texts]
    if check and any(changed):
        raise typer.Exit(NOT_FORMATTED)


def _format(before: str, source: str, *, write: bool, check: bool, as_json: bool) -> bool:
    """Formats one text as it was asked for; True when that changes it."""
    from penstock.sql.format import format_sql

    after = format_sql(before, source)
    changed = after != before
    if write and changed:
        _replace(Path(source), after)
    if as_json:
        told = {"diff": _diff(before, after, source)} if check else {"text": after}
        render.emit({"file": source, "changed": changed, **told})
    elif not (write or check):
        render.text(after.rstrip("\n"))
    elif changed and check:
        render.text(_diff(before, after, source))
    elif changed:
        render.note(f"formatted {source}")
    return changed


def _diff(before: str, after: str, source: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), source, f"{source} (formatted)", lineterm=""
    )
    return "\n".join(lines)


def _replace(path: Path, text: str) -> None:
    """Puts `text` into a file, whole or not at all."""
    path = path.resolve()
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        shutil.copymode(path, file.name)
        os.replace(file.name, path)
    except OSError as failure:
        raise SetupError("unwritable-file", f"cannot write {path}: {failure.strerror}") from None


def explain(
    file: File = None,
    execute: Execute = None,
    config: Config = None,
    graph: Annotated[bool, typer.Option("--graph", help="As a Mermaid flow chart.")] = False,
    physical: Annotated[
        bool,
        typer.Option("--physical", help="Spark's plan too: what is pushed down, pruned and skipped."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Shows what statements would do.

    Example: penstock explain --graph daily.sql
    """
    from penstock.api import Session

    if graph and physical:
        raise InputError("usage", "--graph and --physical are two answers: ask for one")
    text, source = statements(file, execute)
    with Session(config) as session:
        checked = session.check(text, source)
        for plan in checked.plans:
            _explain(session, checked, plan, graph=graph, physical=physical, as_json=as_json)


def _explain(
    session: Session, checked: Checked, plan: Plan, *, graph: bool, physical: bool, as_json: bool
) -> None:
    from penstock.plan import explain as plans
    from penstock.plan.nodes import Explanation, Pipeline

    told: dict[str, Any] = plans.to_dict(plan) if as_json else {}
    answer = plans.graph(plan) if graph else plans.render(plan)
    asked = plan.plan if isinstance(plan, Explanation) else plan
    if physical and isinstance(asked, Pipeline):
        found = session.physical(asked, checked)
        told |= {"physical": found.plan.strip(), "scans": [asdict(scan) for scan in found.scans]}
        # Lines that we decode are one opaque step to Spark: only our plan names their files and filters.
        lines = "\n".join(map(_scanned, found.scans))
        answer = f"{answer}\n\n{lines}\n\n{told['physical']}" if lines else f"{answer}\n\n{told['physical']}"
    if graph:
        told["graph"] = answer
    if as_json:
        render.emit(told)
    else:
        render.text(answer)


def _scanned(scan: Scanned) -> str:
    """What is read of a source, on one line."""
    files, size = scan.files + scan.files_skipped, scan.bytes + scan.bytes_skipped
    columns = ", ".join(scan.columns) or "none"
    return (
        f"reads {scan.source}: {scan.files} of {render.count(files, 'file')},"
        f" {render.size(scan.bytes)} of {render.size(size)}; columns: {columns}"
    )
