"""Commands that look: `inspect` at a source; `describe`, `connectors`, `formats` at what Penstock knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import render
from penstock.cli.arguments import Config, Json, complete_system
from penstock.cli.interrupt import Interruptible
from penstock.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from penstock.api import Inspected
    from penstock.connectors.base import Connector
    from penstock.formats.base import Format
    from penstock.options import Options


def inspect(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="A URI, a path, or the name of a source.", show_default=False)
    ],
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the source.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="How many rows are shown.")] = 5,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Shows a source: columns, first rows, size.

    Example: penstock inspect 'data/*.csv' -o delimiter=';'
    """
    from penstock.api import Session

    options = dict(_pair(text) for text in option or ())
    with Session(config) as session:
        with Interruptible(session):
            found = session.inspect(uri, options, rows=rows)
        if as_json:
            render.emit(asdict(found))
        else:
            _show_inspected(found)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError("usage", f"-o takes key=value, not '{text}'")
    return key.strip(), value


def _show_inspected(found: Inspected) -> None:
    system = " ".join(part for part in (found.connector, found.format) if part)
    render.text(f"{found.label} ({system})")
    for key, value in found.facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} ({count} values)" for name, count in value.items())
        elif isinstance(value, list):
            value = "".join(f"\n  {item}" for item in value)
        elif key == "size" and isinstance(value, int):
            value = render.size(value)
        if value not in (None, ""):
            render.text(f"{key}: {value}")
    render.table(
        ("column", "type", "nullable"),
        [(c.name, c.type, "yes" if c.nullable else "no") for c in found.columns],
    )
    if found.rows:
        names = [column.name for column in found.columns]
        render.table(names, [[_cell(row[name]) for name in names] for row in found.rows])


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CONNECTOR|FORMAT",
            help="A name from 'penstock connectors' or 'penstock formats'.",
            autocompletion=complete_system,
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Shows what a connector or a format takes.

    Example: penstock describe files
    """
    found = _connector(name) or _format(name)
    if found is None:
        from penstock.connectors.registry import all_connectors
        from penstock.formats.registry import all_formats

        known = [*all_connectors(), *all_formats()]
        raise InputError(
            "no-connector", f"there is no connector or format '{name}'", hint=did_you_mean(name, known)
        )
    if as_json:
        render.emit(found)
    else:
        _show_described(found)


def _connector(name: str) -> dict[str, Any] | None:
    from penstock.connectors.registry import all_connectors

    fits = [c for c in all_connectors().values() if name.lower() in (c.name, *c.aliases)]
    return connector_facts(fits[0]) | _options(source=fits[0].Source, sink=fits[0].Sink) if fits else None


def _format(name: str) -> dict[str, Any] | None:
    from penstock.formats.registry import all_formats

    fits = [f for f in all_formats().values() if name.lower() in (f.name, *f.aliases)]
    return (
        format_facts(fits[0]) | _options(reading=fits[0].ReadOptions, writing=fits[0].WriteOptions)
        if fits
        else None
    )


def _options(**models: type[Options] | None) -> dict[str, Any]:
    from penstock.options import describe

    return {"options": {of: [asdict(o) for o in describe(m)] for of, m in models.items() if m is not None}}


def _show_described(found: dict[str, Any]) -> None:
    for key, value in found.items():
        if key != "options" and value:
            render.text(f"{key}: {_joined(value)}")
    for of, options in found["options"].items():
        render.text(f"\n{of} options" if options else f"\n{of} options: none")
        if options:
            render.table(
                ("option", "type", "default", "also", "what it does"),
                [
                    (
                        o["name"],
                        o["type"],
                        "required" if o["required"] else o["default"],
                        ", ".join(o["aliases"]),
                        o["description"],
                    )
                    for o in options
                ],
            )


def connectors(as_json: Json = False) -> None:
    """Lists the connectors, what they can do and promise.

    Example: penstock connectors --json
    """
    from penstock.connectors.registry import all_connectors

    columns = ("name", "schemes", "use", "capabilities", "guarantee")
    _list(columns, [connector_facts(connector) for connector in all_connectors().values()], as_json=as_json)


def formats(as_json: Json = False) -> None:
    """Lists the formats of rows.

    Example: penstock formats
    """
    from penstock.formats.registry import all_formats

    columns = ("name", "aliases", "extensions")
    _list(columns, [format_facts(format) for format in all_formats().values()], as_json=as_json)


def connector_facts(connector: Connector) -> dict[str, Any]:
    """What the table of connectors tells of one."""
    sides = [side for side, model in (("source", connector.Source), ("sink", connector.Sink)) if model]
    return {
        "name": connector.name,
        "aliases": list(connector.aliases),
        "schemes": [f"{scheme}://" for scheme in connector.schemes],
        "use": sides,
        "capabilities": list(connector.capabilities.names()),
        "guarantee": connector.guarantee(),
    }


def format_facts(format: type[Format]) -> dict[str, Any]:
    """What the table of formats tells of one."""
    return {
        "name": format.name,
        "aliases": list(format.aliases),
        "extensions": [f".{extension}" for extension in format.extensions],
    }


def _list(columns: Sequence[str], facts: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for fact in facts:
            render.emit(fact)
    else:
        render.table(columns, [[_joined(fact[column]) for column in columns] for fact in facts])


def _joined(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value
