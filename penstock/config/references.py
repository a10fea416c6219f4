"""`${env:NAME}`, `${env:NAME:-default}`, `${file:path}`, `${secret:name}`: values that stand elsewhere.

What people write keeps its references until the options are bound, so whatever is printed, logged or
stored holds the reference and never the value.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

from penstock.config.redact import looks_secret, remember
from penstock.config.secrets import SecretStore
from penstock.errors import ConfigError, Place, SetupError
from penstock.options import Setting, Value

KINDS = ("env", "file", "secret")

_OPENING = re.compile(r"\$\{([A-Za-z]+):")
_REFERENCE = re.compile(r"\$\{(env|file|secret):([^{}]*)\}")
_NAMES = {
    "env": re.compile(r"([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL),
    "file": re.compile(r"(.+)", re.DOTALL),
    "secret": re.compile(r"([A-Za-z0-9_.-]+)"),
}
_FORMS = "${env:NAME}, ${env:NAME:-default}, ${file:path} or ${secret:name}"
_MAX_FILE = 1 << 20


class Secret(str):
    """A resolved value: a string like any other, but `repr` and containers never show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True)
class Reference:
    text: str
    kind: str
    name: str
    default: str | None = None


def has_reference(value: object) -> bool:
    """Whether a reference stands anywhere in `value`."""
    if isinstance(value, dict):
        return any(has_reference(inner) for inner in value.values())
    if isinstance(value, list):
        return any(has_reference(inner) for inner in value)
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def references(text: str, at: Place | None = None) -> list[Reference]:
    """The references in `text`; raises for one that is misspelt or not closed."""
    found = []
    for opening in _OPENING.finditer(text):
        kind = opening[1]
        if kind not in KINDS:
            near = difflib.get_close_matches(kind.lower(), KINDS, n=1, cutoff=0.6)
            if near:
                raise _bad(opening[0], at, f"did you mean '${{{near[0]}:...}}'?")
            continue  # Spark and log4j have their own, such as ${spark.x} and ${sys:x}
        whole = _REFERENCE.match(text, opening.start())
        inside = _NAMES[kind].fullmatch(whole[2]) if whole else None
        if whole is None or inside is None:
            raise _bad(whole[0] if whole else text[opening.start() :], at, f"write {_FORMS}")
        found.append(Reference(whole[0], kind, inside[1], inside[2] if kind == "env" else None))
    return found


def anchored(text: str, folder: str) -> str:
    """`text` with the relative paths of its `${file:...}` references put under `folder`."""

    def under(match: re.Match[str]) -> str:
        return f"${{file:{os.path.join(folder, match[2])}}}" if match[1] == "file" else match[0]

    return _REFERENCE.sub(under, text) if folder else text


@overload
def resolve(
    value: str,
    *,
    key: str = ...,
    at: Place | None = ...,
    secrets: SecretStore | None = ...,
    environ: Mapping[str, str] | None = ...,
) -> str: ...
@overload
def resolve(
    value: Value,
    *,
    key: str = ...,
    at: Place | None = ...,
    secrets: SecretStore | None = ...,
    environ: Mapping[str, str] | None = ...,
) -> Value: ...
def resolve(
    value: Any,
    *,
    key: str = "",
    at: Place | None = None,
    secrets: SecretStore | None = None,
    environ: Mapping[str, str] | None = None,
) -> Any:
    """`value` with every reference in it replaced by what it stands for, as a `Secret`.

    Raises SetupError `secret-not-set` that names each place that was tried.
    """
    if isinstance(value, dict):
        return {k: resolve(v, key=k, at=at, secrets=secrets, environ=environ) for k, v in value.items()}
    if isinstance(value, list):
        return [resolve(v, key=key, at=at, secrets=secrets, environ=environ) for v in value]
    if not isinstance(value, str):
        return value
    found = iter(references(value, at))
    if not has_reference(value):
        return value
    environ = os.environ if environ is None else environ
    hidden = looks_secret(key)
    return Secret(_REFERENCE.sub(lambda _: _look_up(next(found), at, secrets, environ, hidden), value))


def resolve_settings(
    settings: Iterable[Setting],
    *,
    secrets: SecretStore | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[Setting]:
    """The settings to bind, with their references resolved."""
    return [
        replace(s, value=resolve(s.value, key=s.key, at=s.at, secrets=secrets, environ=environ))
        for s in settings
    ]


def _look_up(
    reference: Reference,
    at: Place | None,
    secrets: SecretStore | None,
    environ: Mapping[str, str],
    hidden: bool,
) -> str:
    tried: list[str] = []
    value: str | None = None
    if reference.kind == "env":
        tried.append(f"environment variable {reference.name}")
        value = environ.get(reference.name, reference.default)
    elif reference.kind == "file":
        value, why = _read(reference.name)
        tried.append(f"file {reference.name}{why}")
    else:
        variable = "PENSTOCK_SECRET_" + re.sub(r"\W", "_", reference.name).upper()
        tried.append(f"environment variable {variable}")
        value = environ.get(variable)
        if value is None and secrets is not None:
            tried.append(f"secret store {secrets.path}")
            value = secrets.get(reference.name)
    if value is None:
        raise SetupError(
            "secret-not-set",
            f"{reference.text} is not set; tried, in order: {', '.join(tried)}",
            at=_inside(at, reference.text),
            hint=_how_to_set(reference),
        )
    if hidden or reference.kind != "env" or looks_secret(reference.name):
        remember(value)
    return value


def _read(path: str) -> tuple[str | None, str]:
    """The file's text without its last line break, or why there is none."""
    try:
        if not os.path.exists(path):
            return None, " (does not exist)"
        if not os.path.isfile(path):
            return None, " (is not a file)"
        with open(path, "rb") as file:
            content = file.read(_MAX_FILE + 1)
        if len(content) > _MAX_FILE:
            return None, " (is larger than 1 MB)"
        return content.decode("utf-8").removesuffix("\n").removesuffix("\r"), ""
    except OSError as failure:
        return None, f" ({failure.strerror})"
    except ValueError:
        return None, " (is not UTF-8 text)"


def _how_to_set(reference: Reference) -> str:
    if reference.kind == "env":
        return f"set {reference.name}, or give a default: ${{env:{reference.name}:-default}}"
    if reference.kind == "file":
        return "a relative path starts at the file that it is written in"
    return "put it into the secret store, or set the environment variable"


def _bad(reference: str, at: Place | None, hint: str) -> ConfigError:
    kind = reference.partition(":")[0]
    message = f"a reference that cannot be read: {kind}:...}}"
    return ConfigError("bad-reference", message, at=_inside(at, reference), hint=hint)


def _inside(at: Place | None, reference: str) -> Place | None:
    """The place of the reference itself, where it stands on the first line of its value."""
    start = at.text.find(reference, at.column - 1) if at and at.text else -1
    return replace(at, column=start + 1, length=len(reference)) if at and start >= 0 else at
