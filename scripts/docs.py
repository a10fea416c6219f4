"""Writes docs/reference/ from the code; with --check, only says whether it is up to date."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import error_codes
import schema_matrix
import typer

from penstock.cli.app import app
from penstock.cli.look import connector_facts, format_facts
from penstock.connectors.base import Capabilities
from penstock.connectors.registry import all_connectors
from penstock.formats.registry import all_formats
from penstock.options import Options, describe

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
HEAD = "<!-- Written by `make docs` from the code; do not edit. -->\n"
MANY = 4
"""How many messages of one code are shown; a syntax error has dozens."""


def connectors() -> str:
    """What each connector takes and does."""
    known = list(all_connectors().values())
    names = [f.name for f in fields(Capabilities) if any(getattr(c.capabilities, f.name) for c in known)]
    marks = [[_code(c.name), *("yes" if getattr(c.capabilities, n) else "" for n in names)] for c in known]
    parts = [
        "# Connectors",
        "The same is on the command line: `penstock connectors`, `penstock describe NAME`.",
        _table(["connector", *(n.replace("_", " ") for n in names)], marks),
    ]
    for connector in known:
        facts = connector_facts(connector)
        parts += [f"## {connector.name}", facts["guarantee"], _facts(facts, "schemes", "aliases")]
        parts += _options("Source options", connector.Source) + _options("Sink options", connector.Sink)
        if connector.capabilities.formats:
            parts.append("Options of the [format](formats.md) stand beside these.")
    return _page(parts)


def formats() -> str:
    """What each format takes."""
    parts = [
        "# Formats",
        "How rows stand in files. `format = '...'` names one; otherwise the file's ending does.",
    ]
    for kind in all_formats().values():
        summary = (sys.modules[kind.__module__].__doc__ or "").strip().partition("\n\n")[0]
        parts += [
            f"## {kind.name}",
            " ".join(summary.split()),
            _facts(format_facts(kind), "aliases", "extensions"),
        ]
        parts += _options("Reading", kind.ReadOptions) + _options("Writing", kind.WriteOptions)
    return _page(parts)


def cli() -> str:
    """Every command, its arguments and options."""
    parts = [
        "# Command line",
        "Exit codes: 0 done, 1 failed while running, 2 what you wrote is wrong, 3 the machine or a server is"
        " wrong.",
    ]
    return _page([*parts, *_command(typer.main.get_command(app), "penstock")])


def errors() -> str:
    """Every error code."""
    parts = [
        "# Error codes",
        "An error has a code that stays the same, a message, the place in what you wrote, and a hint;"
        " `--json` gives all four. In a message, `{name}` stands for what it is about.",
        "Where Spark finds the fault in a query, the code is Spark's own error condition in this spelling:"
        " `UNRESOLVED_COLUMN` is `unresolved-column`.",
    ]
    rows = []
    for (code, kind), group in groupby(error_codes.collect(ROOT / "penstock"), lambda r: (r.code, r.kind)):
        messages = [raised.message for raised in group if raised.message.replace("{…}", "")]
        shown = [_cell(m) for m in messages[:MANY]] + ["and others"] * (len(messages) > MANY)
        rows.append([_code(code), kind, str(error_codes.CLASSES[kind].exit_code), "<br>".join(shown)])
    return _page([*parts, _table(["code", "class", "exit", "message"], rows)])


def changes() -> str:
    """What becomes of tables when the records of a stream change."""
    parts = [
        "# When records change",
        "A stream over `SELECT *` writes to tables of five formats, and ends; its records change, and it"
        " runs again. This is what the tables hold then, by the source's"
        " [`schema_evolution`](../guides/schemas.md#new-fields). `tests/engine/test_schema_matrix.py` reads"
        " every one of them back, with pyarrow, delta-rs, pyiceberg and hudi-rs; those of Delta in which a"
        " type became wider, which delta-rs does not read, with Spark.",
        "`=` is the same as on its left. Where a column of other tables is null, a row of JSON has no such"
        " field. A stream that stops has written nothing of the batch, which the next run delivers.",
    ]
    for change in schema_matrix.CHANGES:
        before, after = ([_code(json.dumps(row)) for row in rows] for rows in (change.before, change.after))
        told = f"{change.source}: {', '.join(before)}; then {', '.join(after)}."
        rows = []
        for names, outcome in _by_outcome(change):
            rows.append([names, *_cells(outcome)])
            if outcome.cured:
                cure = ", ".join(_cure(name, value) for name, value in outcome.cure.items())
                rows.append([f"then {cure}", *_cells(outcome.cured)])
        head = ["`schema_evolution`", *schema_matrix.FORMATS]
        parts += [f"## {change.title}", told, _table(head, rows)]
    return _page(parts)


def _by_outcome(change: schema_matrix.Change) -> Iterable[tuple[str, schema_matrix.Outcome]]:
    """Policies with the same outcome together."""
    each = [(policy, change.outcomes[policy]) for policy in schema_matrix.POLICIES]
    for outcome, group in groupby(each, lambda pair: pair[1]):
        names = [policy for policy, _ in group]
        yield "any" if len(names) == len(each) else ", ".join(map(_code, names)), outcome


def _cells(outcome: schema_matrix.Outcome) -> list[str]:
    words = [outcome.cells[format].words for format in schema_matrix.FORMATS]
    return ["=" if n and words[n - 1] == word else word for n, word in enumerate(words)]


def _cure(name: str, value: str) -> str:
    return f"declared as {_code(value)}" if name == "columns" else _code(f"{name} = '{value}'")


PAGES: dict[str, Callable[[], str]] = {
    "connectors": connectors,
    "formats": formats,
    "cli": cli,
    "errors": errors,
    "schema-matrix": changes,
}


def _command(command: Any, path: str) -> Iterable[str]:
    lines = [line.strip() for line in (command.help or "").splitlines()]
    words = "\n".join(f"`{line}`" if line.startswith("penstock ") else line for line in lines)
    yield f"## {path}"
    yield words.replace("Example: ", "Example:\n\n    ") if "Example: " in words else words
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    rows = [[_code(", ".join(_spellings(p))), getattr(p, "help", None) or ""] for p in shown]
    if rows:
        yield _table(["argument", "what it does"], rows)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{path} {name}")


def _spellings(parameter: Any) -> list[str]:
    value = parameter.metavar or parameter.name.upper()
    if not parameter.opts[0].startswith("-"):
        return [value]
    return [
        *parameter.opts[:-1],
        parameter.opts[-1] + ("" if parameter.is_flag else f" {value}"),
        *parameter.secondary_opts,
    ]


def _options(title: str, model: type[Options] | None) -> list[str]:
    if model is None or not model.model_fields:
        return []
    rows = []
    for option in describe(model):
        default = (
            "required" if option.required else _code(option.default) if option.default is not None else ""
        )
        also = f" Also written {', '.join(map(_code, option.aliases))}." if option.aliases else ""
        rows.append([_code(option.name), _cell(option.type), default, _cell(option.description) + also])
    return [f"### {title}", _table(["option", "type", "default", "what it does"], rows)]


def _facts(facts: dict[str, Any], *names: str) -> str:
    return "\n".join(f"- {name}: {', '.join(map(_code, facts[name]))}" for name in names if facts[name])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _code(text: Any) -> str:
    return f"`{_one_line(str(text))}`"


def _cell(text: str) -> str:
    return re.sub(r"([<*])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("\t", "\\t")


def _page(parts: Iterable[str]) -> str:
    return HEAD + "\n" + "\n\n".join(part for part in parts if part) + "\n"


def main(check: bool) -> int:
    pages = {REFERENCE / f"{name}.md": render() for name, render in PAGES.items()}
    stale = [f for f, text in pages.items() if not f.exists() or f.read_text(encoding="utf-8") != text]
    if check and stale:
        names = ", ".join(str(file.relative_to(ROOT)) for file in stale)
        print(f"docs out of date: run 'make docs' ({names})", file=sys.stderr)
        return 1
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pages[file], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
