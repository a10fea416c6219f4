"""Which connector a URI, a name or a set of options belongs to.

Connectors are found by the entry points of the group `penstock.connectors`, built-in ones and others alike.
Exactly one must claim what was written; otherwise the error names each one and why it did not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from penstock.connectors.base import Connector
from penstock.errors import Place, SetupError, StatementError, did_you_mean
from penstock.options import Options, Setting, names_of, path_of
from penstock.uri import Uri

GROUP = "penstock.connectors"
NAMING_KEYS = ("connector", "upstream.source", "type")
"""Keys that name the connector, the first one that is there; the others may be options of its own."""

Kind = Literal["source", "sink"]
Connectors = Mapping[str, Connector]


@cache
def all_connectors() -> dict[str, Connector]:
    """Every installed connector by its name."""
    found: dict[str, Connector] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        connector = load(point)
        if connector.name in found and type(connector) is not type(found[connector.name]):
            raise SetupError(
                "two-connectors",
                f"two installed packages bring a connector '{connector.name}': "
                f"{type(found[connector.name]).__module__} and {type(connector).__module__}",
                hint="uninstall one of the two",
            )
        found[connector.name] = connector
    return found


def load(point: EntryPoint) -> Connector:
    """The connector of an entry point."""
    try:
        connector = point.load()()
    except Exception as failure:
        raise SetupError(
            "broken-connector",
            f"connector '{point.name}' ({point.value}) does not load: {failure}",
            hint=f"mend or uninstall the package {point.dist.name if point.dist else 'that brings it'}",
        ) from failure
    if not isinstance(connector, Connector):
        raise SetupError(
            "broken-connector",
            f"connector '{point.name}' ({point.value}) is not a penstock.connectors.base.Connector",
        )
    return connector


def by_name(name: str, at: Place | None = None, *, connectors: Connectors | None = None) -> Connector:
    """The connector of this name or alias."""
    known = _known(connectors)
    fits = [c for c in known.values() if name.lower() in (c.name, *c.aliases)]
    if not fits:
        names = [n for c in known.values() for n in (c.name, *c.aliases)]
        hint = did_you_mean(name, names)
        raise StatementError("no-connector", f"this version has no connector '{name}'", at=at, hint=hint)
    return _only(fits, f"the name '{name}'", at)


def for_uri(uri: Uri, at: Place | None = None, *, connectors: Connectors | None = None) -> Connector:
    """The connector that claims the URI's scheme; a path without one is a file."""
    known = _known(connectors)
    schemes = sorted(s for c in known.values() for s in c.schemes)
    bare = uri.text.removesuffix(":").lower()
    scheme = uri.scheme or (bare if uri.text.endswith(":") and bare in schemes else "file")
    fits = [c for c in known.values() if scheme in c.schemes]
    if not fits:
        considered = "; ".join(
            f"{c.name} ({', '.join(f'{s}://' for s in c.schemes) or 'no scheme'})" for c in known.values()
        )
        raise StatementError(
            "no-connector",
            f"no connector claims {scheme}:// (considered: {considered})",
            at=at,
            hint=f"{did_you_mean(scheme, schemes)} (a scheme that is not listed is not in this version)",
        )
    return _only(fits, f"{scheme}://", at)


def for_settings(
    settings: Sequence[Setting],
    kind: Kind,
    at: Place | None = None,
    *,
    connectors: Connectors | None = None,
) -> tuple[Connector, list[Setting]]:
    """The connector that is named, or whose required options are all given; and the other settings."""
    known = _known(connectors)
    for key in NAMING_KEYS:
        naming = next((s for s in settings if s.key.lower() == key), None)
        if naming is not None:
            connector = by_name(str(naming.value), naming.at or at, connectors=known)
            return connector, [s for s in settings if s is not naming]
    fits, considered = [], []
    for connector in known.values():
        model = connector.Source if kind == "source" else connector.Sink
        if model is None:
            continue
        matched, missed = _required(model, settings)
        if matched and not missed:
            fits.append(connector)
        considered.append(f"{connector.name} ({_tell(matched, missed)})")
    if not fits:
        raise StatementError(
            "no-connector",
            f"no connector has all its required options here (considered: {'; '.join(considered)})",
            at=at,
            hint="name one with connector = '...', or give what it missed",
        )
    return _only(fits, f"these options (considered: {'; '.join(considered)})", at), list(settings)


def _known(connectors: Connectors | None) -> Connectors:
    return all_connectors() if connectors is None else connectors


def _required(model: type[Options], settings: Sequence[Setting]) -> tuple[list[str], list[str]]:
    given = {path[0] for s in settings if (path := path_of(s.key, model))}
    required = [names_of(n, f)[0] for n, f in model.model_fields.items() if f.is_required()]
    return [n for n in required if n in given], [n for n in required if n not in given]


def _tell(matched: Sequence[str], missed: Sequence[str]) -> str:
    if not matched and not missed:
        return "requires nothing, so it must be named"
    parts = [("matched", matched), ("missed", missed)]
    return ", ".join(f"{word} {' and '.join(names)}" for word, names in parts if names)


def _only(fits: Sequence[Connector], what: str, at: Place | None) -> Connector:
    if len(fits) == 1:
        return fits[0]
    names = " and ".join(f"'{c.name}' ({type(c).__module__})" for c in fits)
    raise StatementError(
        "two-connectors",
        f"{names} both claim {what}",
        at=at,
        hint="name one with connector = '...' and its options, or uninstall the other",
    )
