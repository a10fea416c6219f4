"""Every error that the source can raise: its code, its class, and its message as a template.

Read from the syntax tree, so that nothing is listed by hand. A function or class that takes a `code` and
hands it to an error is a carrier: the code is found where the carrier is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import penstock.errors

CLASSES = {
    name: cls
    for name, cls in vars(penstock.errors).items()
    if isinstance(cls, type) and issubclass(cls, penstock.errors.PenstockError)
}


@dataclass(frozen=True, order=True)
class Raised:
    code: str
    kind: str
    message: str


@dataclass(frozen=True)
class Carrier:
    """What becomes an error of the class `kind`, with its positional parameters and its code unless given."""

    kind: str
    parameters: tuple[str, ...] = ("code", "message")
    code: str | None = None


@dataclass(frozen=True)
class Function:
    """A function, or a class by its `__init__`."""

    name: str
    node: ast.FunctionDef
    texts: dict[str, ast.expr] = field(default_factory=dict)
    """What its variables are set to."""

    @property
    def takes_code(self) -> bool:
        return any(a.arg == "code" for a in (*self.node.args.args, *self.node.args.kwonlyargs))

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.node) if isinstance(node, ast.Call))


def collect(package: Path) -> list[Raised]:
    """The errors of a package; each room of it is read on its own, since names repeat between them."""
    found: set[Raised] = set()
    for room in sorted(package.iterdir()):
        files = sorted(room.rglob("*.py")) if room.is_dir() else [room] if room.suffix == ".py" else []
        functions = [f for file in files for f in _functions(ast.parse(file.read_text(encoding="utf-8")))]
        carriers = _carriers(functions)
        found.update(raised for function in functions for raised in _raised(function, carriers))
    return sorted(found)


def _functions(tree: ast.Module) -> Iterator[Function]:
    owners = {
        id(part): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            name = owners.get(id(node), node.name) if node.name == "__init__" else node.name
            assigned = [a for a in ast.walk(node) if isinstance(a, ast.Assign)]
            yield Function(
                name, node, {t.id: a.value for a in assigned for t in a.targets if isinstance(t, ast.Name)}
            )


def _carriers(functions: list[Function]) -> dict[str, Carrier]:
    """The error classes, then whatever hands its own `code` to one of those that are known already."""
    found = {name: Carrier(name) for name in CLASSES}
    for function in functions:
        for call in function.calls():
            first = call.args[0] if call.args else None
            if _name(call) in CLASSES and isinstance(first, ast.Attribute) and first.attr == "code":
                holders = (f for f in functions if f.takes_code and f.node.name == "__init__")
                found |= {f.name: _carrier(_name(call), f) for f in holders if f.name not in CLASSES}
    size = 0
    while size < len(found):
        size = len(found)
        for function in (f for f in functions if f.takes_code and f.name not in found):
            to = next((_name(c) for c in function.calls() if _name(c) in found and _hands_on_code(c)), None)
            if to:
                found[function.name] = _carrier(found[to].kind, function)
    return found


def _carrier(kind: str, function: Function) -> Carrier:
    args = function.node.args
    named = [
        *zip(reversed(args.args), reversed(args.defaults), strict=False),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    default = next((value for arg, value in named if arg.arg == "code"), None)
    positional = tuple(a.arg for a in args.args if a.arg != "self")
    return Carrier(kind, positional, _text(default))


def _raised(function: Function, carriers: dict[str, Carrier]) -> Iterator[Raised]:
    for call in function.calls():
        carrier = carriers.get(_name(call))
        if carrier is None:
            continue
        given = dict(zip(carrier.parameters, call.args, strict=False)) | {
            k.arg: k.value for k in call.keywords if k.arg
        }
        code = _text(given["code"]) if "code" in given else carrier.code
        if code is not None:
            yield Raised(code, carrier.kind, _template(given.get("message"), function.texts))


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", None) or getattr(call.func, "attr", ""))


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _hands_on_code(call: ast.Call) -> bool:
    values = [*call.args, *(k.value for k in call.keywords)]
    return any(isinstance(value, ast.Name) and value.id == "code" for value in values)


def _template(node: ast.expr | None, texts: dict[str, ast.expr]) -> str:
    """A message with the names of what is put into it: `unknown option '{key}'`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_template(part, {}) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return f"{{{name}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _template(left, texts) + _template(right, texts)
        case ast.IfExp(body=body):
            return _template(body, texts)
        case ast.Name(id=name) if name in texts:
            return _template(texts[name], {})
        case _:
            return "{…}"
