"""Tokens of one statement -> lines of at most 100 columns, where that can be had.

Clauses begin lines. What does not fit is broken at its commas, else at its ANDs and ORs, else inside
its widest brackets; never anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

WIDTH = 100
STEP = 2

_SPACED = {"=", "==", "<>", "!=", "<=", ">=", "<=>", "||", "=>"}
_CLOSING = {"(": ")", "[": "]", "<": ">"}
_GENERIC = {"ARRAY", "MAP", "STRUCT"}
_QUERY = {"SELECT", "WITH", "FROM", "VALUES", "TABLE"}
_JOIN = {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI"}
_CLAUSES = {"SELECT", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW", "ORDER BY", "SORT BY", "CLUSTER BY",
            "DISTRIBUTE BY", "LIMIT", "OFFSET", "UNION", "INTERSECT", "PIVOT", "UNPIVOT"}  # fmt: skip
_LISTS = {"SELECT", "WITH", "FROM", "VALUES", "INTO", "GROUP BY", "WINDOW", "ORDER BY", "SORT BY",
          "CLUSTER BY", "DISTRIBUTE BY"}  # fmt: skip
_PAIRS = {"json_object", "named_struct", "map"}


@dataclass
class Atom:
    """A token as it is printed, with the comments on lines before it, and those behind it on its line."""

    text: str
    keyword: bool = False
    taken: bool = False
    """Whether our own grammar asked for this keyword, and not a query's."""
    glued: bool = False
    """Whether nothing stood between it and the token before."""
    lead: list[str] = field(default_factory=list)
    trail: list[str] = field(default_factory=list)


@dataclass
class Group:
    """What stands in brackets."""

    open: Atom
    nodes: list[Node]
    close: Atom


Node = Atom | Group
Nodes = Sequence[Node]


def share_line(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    """Which of two tokens' comments can stand on one line, and which are left over."""
    ends_line = any(_ends_line(comment) for comment in first)
    return ([*first], [*second]) if ends_line else ([*first, *second], [])


def lines_of(atoms: list[Atom]) -> list[str]:
    """The lines of a statement."""
    return _query(_tree(atoms), 0)


def _ends_line(comment: str) -> bool:
    return comment.startswith("--") or "\n" in comment


def _tree(atoms: list[Atom]) -> list[Node]:
    top: list[Node] = []
    stack: list[tuple[Atom | None, list[Node]]] = [(None, top)]
    for atom in atoms:
        opened, nodes = stack[-1]
        before = nodes[-1] if nodes else None
        is_generic = isinstance(before, Atom) and before.text.upper() in _GENERIC and atom.glued
        if atom.text in ("(", "[") or (atom.text == "<" and is_generic):
            stack.append((atom, []))
        elif opened is not None and atom.text == _CLOSING[opened.text]:
            stack.pop()
            stack[-1][1].append(Group(opened, nodes, atom))
        else:
            nodes.append(atom)
    for opened, nodes in stack[1:]:
        top += [*([opened] if opened else []), *nodes]
    return top


def _flatten(nodes: Nodes) -> Iterator[Atom]:
    for node in nodes:
        if isinstance(node, Atom):
            yield node
        else:
            yield node.open
            yield from _flatten(node.nodes)
            yield node.close


# On one line.


def _gap(before: Atom, atom: Atom) -> str:
    """What stands between two tokens."""
    if before.trail:
        return " "
    if atom.text in (",", ")", "]") or before.text in ("(", "["):
        return ""
    if before.text == "," or atom.text in _SPACED or before.text in _SPACED:
        return " "
    if (before.keyword or atom.keyword) and atom.text not in ("::", ".", "[") and before.text != ".":
        return " "
    return "" if atom.glued else " "


def _flow(atoms: Sequence[Atom], indent: int) -> list[str]:
    """Tokens in a row, broken by comments only; the first one's lead is left to the caller."""
    lines = [""]
    before: Atom | None = None
    for i, atom in enumerate(atoms):
        if i and atom.lead:
            lines += [*filter(None, atom.lead), ""]
        elif before is not None and before.trail and before.trail[-1].startswith("--"):
            lines.append("")
        gap = _gap(before, atom) if before is not None and lines[-1] else ""
        lines[-1] = " ".join([lines[-1] + gap + atom.text, *atom.trail])
        before = atom
    return [" " * indent + line for line in lines]


def _flat(nodes: Nodes, indent: int) -> str | None:
    """The line, when it fits and no comment breaks it."""
    atoms = list(_flatten(nodes))
    if any(atom.lead for atom in atoms[1:]) or any(_ends_line(c) for a in atoms[:-1] for c in a.trail):
        return None
    line = _flow(atoms, indent)[0]
    comments = sum(len(comment) + 1 for comment in atoms[-1].trail)
    return line if max(map(len, line.split("\n"))) - comments <= WIDTH else None


# On several lines.


def _query(nodes: Nodes, indent: int) -> list[str]:
    """A line for each clause, or more."""
    lines: list[str] = []
    for clause in _split(nodes, _starts_clause):
        lines += _lead(clause, indent)
        flat = _flat(clause, indent)
        lines += [flat] if flat is not None else _clause(clause, indent)
    return lines


def _lead(nodes: Nodes, indent: int) -> list[str]:
    first = next(_flatten(nodes))
    return [" " * indent + comment for comment in first.lead if comment]


def _split(nodes: Nodes, starts: Callable[[Nodes, int], bool]) -> list[list[Node]]:
    parts: list[list[Node]] = [[]]
    for i, node in enumerate(nodes):
        if i and starts(nodes, i):
            parts.append([])
        parts[-1].append(node)
    return parts


def _starts_clause(nodes: Nodes, i: int) -> bool:
    atom, before, after = nodes[i], _text(nodes, i - 1), _text(nodes, i + 1)
    if not isinstance(atom, Atom) or not atom.keyword or before == "|>":
        return _text(nodes, i) == "|>"
    word = atom.text
    if word in _JOIN:
        return before not in _JOIN and before != "VIEW"
    is_ours = _text(nodes, 0) in ("CREATE", "INSERT")
    match word:
        case "LATERAL":
            return before not in _JOIN and before != ","
        case "EXCEPT" | "MINUS":
            return before != "*"
        case "VALUES":
            return before not in _JOIN and before not in (",", "FROM")
        case "INTO":
            return before != "INSERT"
        case "WITH":
            return (is_ours and atom.taken) or after not in ("", "CUBE", "ROLLUP")
        case "ROW" | "FORMAT":
            return is_ours and before != "ROW"
        case "FROM":
            in_query = _text(nodes, 0) != "CREATE" or any(_text(nodes, j) == "AS" for j in range(i))
            return in_query and not (before == "DISTINCT" and _text(nodes, i - 2) in ("IS", "NOT"))
    return word in _CLAUSES


def _text(nodes: Nodes, i: int) -> str:
    """A token's text; empty for brackets, and beyond the end."""
    node = nodes[i] if 0 <= i < len(nodes) else None
    return node.text if isinstance(node, Atom) else ""


def _is_comma(nodes: Nodes, i: int) -> bool:
    return _text(nodes, i) == ","


def _clause(clause: Nodes, indent: int) -> list[str]:
    if _text(clause, 0) not in _LISTS or not any(_is_comma(clause, i) for i in range(len(clause))):
        return _item(clause, indent)
    head = 1
    while _text(clause, head) in ("DISTINCT", "ALL", "RECURSIVE") or _text(clause, head).startswith("/*+"):
        head += 1
    return _flow(list(_flatten(clause[:head])), indent) + _list(clause[head:], indent + STEP)


def _list(nodes: Nodes, indent: int, each: int = 1) -> list[str]:
    """One item to a line, or as many as `each`, with the comma before a comment."""
    lines: list[str] = []
    item: list[Node] = []
    left: list[str] = []
    commas = 0
    for node in nodes:
        is_comma = isinstance(node, Atom) and node.text == ","
        commas += is_comma
        if not isinstance(node, Atom) or not is_comma or commas % each:
            item.append(node)
            continue
        last = list(_flatten(item))[-1]
        trail, last.trail = last.trail, []
        lines += _listed(item, indent, left)
        kept, left = share_line(trail, node.trail)
        left = [*filter(None, node.lead), *left]
        lines[-1] = " ".join([lines[-1] + ",", *kept])
        item = []
    return lines + _listed(item, indent, left)


def _listed(item: list[Node], indent: int, left: list[str]) -> list[str]:
    comments = [" " * indent + comment for comment in left]
    return comments + _lead(item, indent) + _item(item, indent) if item else comments


def _item(nodes: Nodes, indent: int) -> list[str]:
    """Something without commas of its own, or with commas that do not matter."""
    flat = _flat(nodes, indent)
    if flat is not None:
        return [flat]
    parts = _split(nodes, _starts_condition)
    if len(parts) > 1:
        first, *others = parts
        lines = _item(first, indent)
        for part in others:
            lines += _lead(part, indent + STEP) + _item(part, indent + STEP)
        return lines
    groups = [i for i, node in enumerate(nodes) if isinstance(node, Group) and node.nodes]
    if not groups:
        return _flow(list(_flatten(nodes)), indent)
    widest = max(groups, key=lambda i: sum(len(atom.text) + 1 for atom in _flatten(nodes[i : i + 1])))
    return _broken(nodes, widest, indent)


def _starts_condition(nodes: Nodes, i: int) -> bool:
    node = nodes[i]
    if not isinstance(node, Atom) or not node.keyword or node.text not in ("AND", "OR"):
        return False
    # The AND of a BETWEEN is none.
    words = [_text(nodes, j) for j in range(i)]
    pending = 0
    for word in words:
        pending = pending + 1 if word == "BETWEEN" else max(0, pending - 1) if word == "AND" else pending
    return node.text == "OR" or not pending


def _broken(nodes: Nodes, at: int, indent: int) -> list[str]:
    """One pair of brackets with what it holds on lines between."""
    group = nodes[at]
    assert isinstance(group, Group)
    lines = _flow([*_flatten(nodes[:at]), group.open], indent)
    inner = group.nodes
    if _text(inner, 0) in _QUERY and getattr(inner[0], "keyword", False):
        lines += _query(inner, indent + STEP)
    elif any(_is_comma(inner, i) for i in range(len(inner))):
        lines += _list(inner, indent + STEP, 2 if _text(nodes, at - 1).lower() in _PAIRS else 1)
    else:
        lines += _lead(inner, indent + STEP) + _item(inner, indent + STEP)
    lines += [" " * (indent + STEP) + comment for comment in group.close.lead if comment]
    return lines + _item([group.close, *nodes[at + 1 :]], indent)
