"""The ends of statements: what a URI or a name stands for, and its options, each of its type.

A name is looked up in this order: the catalog, the project's `data_sources`, the statement's `source_config`
file, the default for streams, the streams in the project's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from penstock import config
from penstock.catalog import Catalog
from penstock.connectors import registry as connectors
from penstock.connectors.base import METADATA, Connector, Places, SinkOptions, SourceOptions
from penstock.connectors.registry import Kind
from penstock.errors import OptionError, PenstockError, Place, StatementError
from penstock.formats import registry as formats
from penstock.formats.base import Format
from penstock.options import Options, Setting, bind, path_of, refuse_unknown, split
from penstock.plan.nodes import Scan, Write
from penstock.schema import METADATA_TYPES, Column
from penstock.sql import statements as sql
from penstock.sql.parse import parse
from penstock.streams.file.folder import streams_in
from penstock.uri import Uri


class Profiled(Options):
    """Options that every endpoint takes: they choose profiles, which set options of its connector."""

    performance_profile: str | None = Field(None, description="A profile for speed, by name.")
    delivery_profile: str | None = Field(None, description="A profile for delivery, by name.")


@dataclass(frozen=True)
class Described:
    """A source or sink that a name stands for."""

    label: str
    connector: Connector
    settings: list[Setting]
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()


class Endpoints:
    """Finds and types the ends of statements, one after another; `notes` collects what is to be told."""

    def __init__(self, catalog: Catalog, project: config.Project) -> None:
        self.catalog = catalog
        self.project = project
        self.notes: list[str] = []
        self._written: set[str] = set()
        """Streams that earlier statements write to, and make when they run."""

    def find(self, endpoint: sql.Endpoint, kind: Kind, fallback: config.Endpoint | None = None) -> Described:
        """What a URI or a name stands for."""
        name, at = endpoint.name, endpoint.at
        if endpoint.is_uri:
            return self._uri(name, at)
        entry = self.catalog.find(name)
        if entry is not None:
            (statement,) = parse(entry.statement, f"{entry.kind} {entry.name}")
            if not isinstance(statement, sql.CreateSource) or (kind == "sink" and statement.kind != "table"):
                verb = "written to" if kind == "sink" else "read"
                raise StatementError("wrong-kind", f"{entry.kind} '{entry.name}' cannot be {verb}", at=at)
            return self.created(statement)
        configured = self.project.data_sources.get(name) or fallback
        if configured is not None:
            return self._configured(name, configured, at)
        if self.project.streams is not None:
            streams = self.project.streams
            return self._uri(f"{streams}{name}" if streams.endswith("/") else f"{streams}/{name}", at)
        return self._embedded(name, kind, at)

    def _embedded(self, name: str, kind: Kind, at: Place) -> Described:
        """A stream in the project's own folder: one that is there, or that a sink makes."""
        connector = connectors.by_name("stream", at)
        folder = str(connector.settings_in(self._places)["folder"])
        streams = {*streams_in(Path(folder)), *self._written}
        if kind == "sink":
            self._written.add(name)
        elif name not in streams:
            known = sorted({*(e.name for e in self.catalog.objects()), *self.project.data_sources, *streams})
            raise StatementError(
                "unknown-name",
                f"there is no source, table, view or stream '{name}'",
                at=at,
                hint=(f"known names: {', '.join(known)}; " if known else "")
                + "CREATE SOURCE makes one, `data_sources:` in penstock.yaml names one, INSERT INTO makes a"
                " stream, and `streams: kafka://broker:9092` there makes any other name a stream",
            )
        return Described(name, connector, [Setting("stream", name, at)])

    @property
    def _places(self) -> Places:
        return Places(self.project.tables, self.project.state)

    def _uri(self, text: str, at: Place) -> Described:
        uri = Uri.parse(text)
        connector = connectors.for_uri(uri, at)
        try:
            settings = [Setting(key, value, at) for key, value in connector.settings_of(uri).items()]
        except PenstockError as failure:
            failure.at = failure.at or at
            raise
        return Described(str(uri), connector, settings)

    def created(self, statement: sql.CreateSource) -> Described:
        """What a CREATE SOURCE or CREATE TABLE describes."""
        connector, settings = connectors.for_settings(
            with_format(statement.settings, statement.row_format, statement.encoding), "source", statement.at
        )
        return Described(statement.name, connector, settings, statement.columns)

    def _configured(self, name: str, endpoint: config.Endpoint, at: Place) -> Described:
        connector = connectors.by_name(endpoint.type, endpoint.at or at)
        return Described(name, connector, list(endpoint.settings), notes=tuple(endpoint.notes))

    def scan(
        self, described: Described, settings: Iterable[Setting], query: sql.Query | None, at: Place
    ) -> Scan:
        """The reading of a source, with what `query` mentions of it."""
        connector = described.connector
        if connector.Source is None:
            raise StatementError("not-a-source", f"{connector.name} cannot be read, only written to", at=at)
        given, store = self._settings(described, settings, connector.Source, "source")
        options, format = self._typed(connector, connector.Source, "ReadOptions", given, at)
        assert isinstance(options, SourceOptions)
        mentioned = query.names if query is not None else frozenset()
        hidden = frozenset(c.name for c in connector.hidden(options)) & mentioned
        metadata = frozenset[str]()
        if METADATA in hidden:
            metadata = mentioned & METADATA_TYPES.keys() or frozenset(METADATA_TYPES)
        return Scan(
            label=described.label,
            connector=connector,
            options=options,
            format=format,
            columns=described.columns,
            used=None if query is None or query.star else query.names,
            hidden=hidden,
            metadata=metadata,
            filters=(),
            settings=tuple(given),
            at=at,
            dead_letter=self._dead_letter(options, given),
            store=store,
        )

    def _dead_letter(self, options: SourceOptions | SinkOptions, settings: Iterable[Setting]) -> Write | None:
        if options.dead_letter is None:
            return None
        setting = next(s for s in settings if s.key.lower() == "dead_letter")
        if options.on_error != "dead_letter":
            raise OptionError(
                "bad-option",
                "dead_letter names a place, but on_error keeps nothing",
                at=setting.at,
                hint="add on_error = 'dead_letter'",
            )
        at = setting.at or Place("dead_letter", 1)
        return self.write(self._uri(options.dead_letter, at), [Setting("mode", "append", at)], at)

    def write(self, described: Described, settings: Iterable[Setting], at: Place) -> Write:
        """The writing to a sink."""
        connector = described.connector
        if connector.Sink is None:
            raise StatementError("not-a-sink", f"{connector.name} can only be read, not written to", at=at)
        given, store = self._settings(described, settings, connector.Sink, "sink")
        options, format = self._typed(connector, connector.Sink, "WriteOptions", given, at)
        assert isinstance(options, SinkOptions)
        letters = self._dead_letter(options, given)
        return Write(described.label, connector, options, format, tuple(given), at, letters, store)

    def _typed(
        self, connector: Connector, model: type[Options], side: str, settings: Iterable[Setting], at: Place
    ) -> tuple[Options, Format | None]:
        resolved = config.resolve_settings(settings, secrets=self.project.secrets())
        return _bind_endpoint(connector, model, side, resolved, at)

    def _settings(
        self, described: Described, settings: Iterable[Setting], model: type[Options], role: Kind
    ) -> tuple[list[Setting], Connector | None]:
        """What stands for an endpoint, weakest first: the project's defaults, profiles, its description, its
        own `WITH`; and the connector to the store that it stands in."""
        self.notes += described.notes
        connector = described.connector
        profiles, own = split((*described.settings, *settings), Profiled)
        places = connector.settings_in(self._places)
        told = [
            *(Setting(key, value) for key, value in places.items()),
            *self._catalog(own, model),
            *self._defaults(connector, model),
            *self._effects(profiles, connector.name, model, role),
            *own,
        ]
        scheme = connector.store_of({k[0]: s.value for k, s in _merged(told, model).items()})
        store = connectors.for_uri(Uri(f"{scheme}://", scheme)) if scheme else None
        shared = self._defaults(store, model) if store else ()
        return list(_merged((*shared, *told), model).values()), store

    def _catalog(self, settings: Iterable[Setting], model: type[Options]) -> Iterator[Setting]:
        """What the project says of the catalog that a table is in."""
        given = {path_of(s.key, model): s for s in settings}
        own, table = given.get(("catalog",)), given.get(("table",))
        named = own or table
        if named is None or path_of("catalog", model) is None:
            return
        text = str(named.value)
        name = text if own else text.partition(".")[0] if text.count(".") > 1 else ""
        catalog = self.project.catalogs.get(name)
        if catalog is None:
            is_described = ("catalog_uri",) in given or ("catalog_type",) in given
            if self.project.catalogs and not is_described:
                known = ", ".join(self.project.catalogs)
                raise StatementError(
                    "unknown-catalog",
                    f"there is no catalog '{name}'" if name else f"'{named.value}' names no catalog",
                    at=named.at,
                    hint=f"`catalogs:` in penstock.yaml has {known}",
                )
            return
        for setting in catalog.settings:
            key = next(
                (key for key in (f"catalog_{setting.key}", setting.key) if path_of(key, model)),
                f"catalog_properties.{setting.key}",
            )
            yield replace(setting, key=key)

    def _defaults(self, connector: Connector, model: type[Options]) -> Iterator[Setting]:
        """The project's settings for all sources and sinks of a connector, as far as this one knows them."""
        for name, given in self.project.defaults.items():
            if connectors.by_name(name, given.at) is not connector:
                continue
            models = [m for m in (connector.Source, connector.Sink) if m is not None]
            unknown = (s for s in given.settings if not path_of(s.key, *models))
            refuse_unknown(unknown, connector.name, *models)
            yield from (s for s in given.settings if path_of(s.key, model))

    def _effects(
        self, chosen: Iterable[Setting], owner: str, model: type[Options], role: Kind
    ) -> Iterator[Setting]:
        """The settings that profiles make, as far as the connector knows them."""
        defaults = self.project.profiles()
        names = {s.key.lower().removesuffix("_profile"): s for s in chosen}
        for kind in ("performance", "delivery"):
            setting = names.get(kind) or getattr(defaults, kind)
            if setting is None:
                continue
            effects = [
                Setting(f"{e.group}.{e.key}" if e.group else e.key, e.value, setting.at)
                for e in defaults.profiles.effects(kind, str(setting.value), role, setting.at)
            ]
            known = [effect for effect in effects if path_of(effect.key, model)]
            if kind in names and not known:
                self.notes.append(f"{kind} profile '{setting.value}' has no effect on {owner}")
            yield from known


def _merged(settings: Iterable[Setting], model: type[Options]) -> dict[tuple[str, ...], Setting]:
    """The last setting of each option; those that are only wishes, where the option is known."""
    merged: dict[tuple[str, ...], Setting] = {}
    for setting in settings:
        known = path_of(setting.key, model)
        if known or not setting.wish:
            merged[known or (setting.key.lower(),)] = setting
    return merged


def _bind_endpoint(
    connector: Connector, model: type[Options], side: str, settings: Iterable[Setting], at: Place
) -> tuple[Options, Format | None]:
    """Types the settings: some are the connector's, the rest its format's."""
    owner = connector.name
    own, rest = split(settings, model)
    if not connector.capabilities.formats:
        refuse_unknown(rest, owner, model)
        if file := next((s for s in own if path_of(s.key, model) == ("schema_file",)), None):
            hint = "its columns are known: leave it out, or CAST them in the SELECT"
            raise OptionError("bad-option", f"schema_file has no effect on {owner}", at=file.at, hint=hint)
        return bind(model, own, owner, at=at), None
    options = bind(model, own, owner, at=at)
    try:
        name = getattr(options, "format", None) or connector.format_of(options)
    except PenstockError as failure:
        failure.at = failure.at or at
        raise
    if name is None:
        raise OptionError(
            "no-format",
            f"cannot tell the format of {owner} from its name",
            at=at,
            hint=f"set format to one of: {', '.join(sorted(formats.all_formats()))}",
        )
    try:
        kind, implied = formats.find(name)
    except PenstockError as failure:
        failure.at = next((s.at for s in own if s.key.lower() == "format"), at)
        raise
    format_model: type[Options] = getattr(kind, side)
    unknown = (s for s in rest if not path_of(s.key, format_model))
    refuse_unknown(unknown, f"{owner} ({kind.name})", model, format_model)
    implied = {**implied, **connector.format_options(options)}
    given = [Setting(key, value, at) for key, value in implied.items() if path_of(key, format_model)]
    return options, kind(bind(format_model, [*given, *rest], f"{owner} ({kind.name})", at=at))


def with_format(settings: Sequence[Setting], row_format: str | None, encoding: str | None) -> list[Setting]:
    """`ROW FORMAT json` and `FORMAT PLAIN ENCODE JSON` are other ways to write `format = 'json'`."""
    name = encoding or row_format
    if name is None or any(s.key.lower() == "format" for s in settings):
        return list(settings)
    if encoding is not None and (row_format or "plain").lower() != "plain":
        name = str(row_format)
    return [*settings, Setting("format", name.lower(), settings[0].at if settings else None)]
