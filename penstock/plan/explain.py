"""A Plan for people and programs: as a tree, as JSON, as a Mermaid graph. Secrets never show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.config import redact
from penstock.connectors.base import Connector
from penstock.formats.base import Format
from penstock.options import Setting
from penstock.plan import realtime
from penstock.plan.nodes import (
    Assign,
    Define,
    Description,
    Explanation,
    Listing,
    Pipeline,
    Plan,
    Remove,
    Scan,
    Transform,
    Upkeep,
    Write,
)
from penstock.uri import mask

Tree = dict[str, Any]


def to_dict(plan: Plan) -> Tree:
    """The plan as plain data."""
    match plan:
        case Pipeline():
            tree: Tree = {"pipeline": plan.name, "mode": _mode(plan)}
            tree["sinks"] = [_write(sink) for sink in plan.sinks]
            tree["query"] = _transform(plan.root)
            tree["notes"] = list(plan.notes)
            return tree
        case Define():
            return {"create": plan.kind, "name": plan.name, "as": _node(plan.node) if plan.node else None}
        case Remove():
            return {"drop": plan.kind, "name": plan.name}
        case Listing():
            return {"show": plan.kind}
        case Description():
            return {"describe": plan.node.label, "as": _node(plan.node)}
        case Upkeep():
            return {plan.action: plan.node.label, "as": _node(plan.node)}
        case Assign():
            return {"set": plan.setting.key, "value": redact(plan.setting.key, plan.setting.value)}
        case Explanation():
            return to_dict(plan.plan)


def _mode(plan: Pipeline) -> str:
    """How rows pass."""
    if not plan.streaming:
        return "batch"
    if not realtime.is_wanted(plan):
        return "stream"
    obstacle = realtime.obstacle(plan)
    if obstacle is None:
        return "stream in real time: row by row, at least once, no dead letters"
    return f"stream in batches, since for real time {obstacle}"


def _node(node: Scan | Transform) -> Tree:
    return _scan(node) if isinstance(node, Scan) else _transform(node)


def _transform(node: Transform) -> Tree:
    # As Spark gets it: without the relations' options, among which may be secrets.
    text = node.query.spark_sql([mask(relation.name) for relation in node.query.relations]).strip()
    return {"select": node.label, "text": text, "inputs": [_node(n) for n in node.inputs]}


def _scan(scan: Scan) -> Tree:
    return {
        "read": scan.label,
        **_system(scan.connector, scan.format, scan.settings),
        "columns": [f"{c.name} {c.type}" for c in scan.columns] or "discovered",
        "used": "all" if scan.used is None else "those the query names",
        "metadata": sorted(scan.metadata),
        "filters": [f"{c} {op}" + ("" if v is None else f" {v!r}") for c, op, v in scan.filters],
        "on_error": scan.options.on_error,
        **({"schema_evolution": scan.evolution} if scan.evolution else {}),
    }


def _write(write: Write) -> Tree:
    return {
        "write": write.label,
        **_system(write.connector, write.format, write.settings),
        "mode": write.options.mode,
        "guarantee": write.connector.guarantee(),
    }


def _system(connector: Connector, format: Format | None, settings: tuple[Setting, ...]) -> Tree:
    return {
        "connector": connector.name,
        "format": format.name if format else None,
        # Those that nobody wrote are where the project is.
        "options": {s.key: redact(s.key, s.value) for s in settings if s.at is not None},
    }


def render(plan: Plan) -> str:
    """The plan as a tree, sinks first, the way rows are asked for."""
    tree = to_dict(plan)
    if "sinks" not in tree:
        (what, of), *rest = ((k, v) for k, v in tree.items() if not isinstance(v, dict))
        lines = [" ".join([what, str(of), *(f"{k} {v}" for k, v in rest)])]
        lines += [
            line for value in tree.values() if isinstance(value, dict) for line in _lines(value, "└─ ", "   ")
        ]
        return "\n".join(lines)
    name = f" {tree['pipeline']}" if tree["pipeline"] else ""
    lines = [f"pipeline{name} ({tree['mode']})"]
    for sink in tree["sinks"]:
        lines += _lines(sink, "├─ ", "│  ")
    lines += _lines(tree["query"], "└─ ", "   ")
    return "\n".join([*lines, *(f"note: {note}" for note in tree["notes"])])


def _lines(tree: Tree, lead: str, indent: str) -> Iterator[str]:
    kind = next(iter(tree))
    system = " ".join(part for part in (tree.get("connector"), tree.get("format")) if part)
    yield f"{lead}{kind} {tree[kind]}" + (f" ({system})" if system else "")
    for key, value in tree.items():
        if key in (kind, "connector", "format", "inputs", "text") or value in (None, [], {}):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{k} = {v}" for k, v in value.items())
        yield f"{indent}{key}: {', '.join(value) if isinstance(value, list) else value}"
    for line in (tree.get("text") or "").splitlines():
        yield f"{indent}| {line}"
    inputs = tree.get("inputs", [])
    for number, node in enumerate(inputs):
        last = number == len(inputs) - 1
        yield from _lines(node, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "))


def graph(plan: Plan) -> str:
    """The plan as a Mermaid flow chart, rows going from left to right."""
    tree = to_dict(plan)
    lines = ["flowchart LR"]
    root = tree.get("query") or tree.get("as") or tree.get("describe")
    if root is not None:
        top = _graph(root, lines)
        for number, sink in enumerate(tree.get("sinks", [])):
            lines.append(f'  {top} --> w{number}[("{_quoted(sink["write"])}")]')
    return "\n".join(lines)


def _graph(tree: Tree, lines: list[str]) -> str:
    name = f"n{len(lines)}"
    if "read" in tree:
        lines.append(f'  {name}[("{_quoted(tree["read"])}")]')
        return name
    lines.append(f'  {name}["{_quoted(tree["select"])}"]')
    for node in tree["inputs"]:
        lines.append(f"  {_graph(node, lines)} --> {name}")
    return name


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
