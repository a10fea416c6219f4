"""Statements + catalog + configuration -> Plan. Whatever is wrong is found here, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import singledispatchmethod
from typing import NoReturn

from pydantic import Field

from penstock import config
from penstock.catalog import Catalog, Entry
from penstock.connectors import registry as connectors
from penstock.connectors.base import Connector
from penstock.connectors.merging import Merging
from penstock.connectors.registry import Kind
from penstock.errors import Place, StatementError
from penstock.options import Duration, Options, Setting, bind, refuse_unknown, split
from penstock.plan import evolution
from penstock.plan.endpoints import Described, Endpoints, Profiled, with_format
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
from penstock.sql import statements as sql
from penstock.sql.parse import parse


class StatementOptions(Profiled):
    """Options of a whole statement: `INSERT ... WITH (...)`."""

    source_config: str | None = Field(None, description="A YAML file that describes the source.")
    sink_config: str | None = Field(None, description="A YAML file that describes the sink.")


class UpkeepOptions(Options):
    """Options of OPTIMIZE and VACUUM, beside those of the table."""

    retain: Duration = Field(
        timedelta(days=7), description="How far back the table can still be read after VACUUM."
    )


class Binder:
    """Binds statements one after another."""

    def __init__(self, catalog: Catalog, project: config.Project) -> None:
        self._catalog = catalog
        self._ends = Endpoints(catalog, project)
        self._views: list[str] = []

    def set(self, setting: Setting) -> None:
        """Changes a setting of the project for the statements that follow."""
        self._ends.project = self._ends.project.with_setting(setting)

    def bind(self, statement: sql.Statement) -> Plan:
        self._ends.notes, self._views = [], []
        plan = self._bind(statement)
        if isinstance(plan, Pipeline):
            plan = evolution.governed(plan, self._ends.notes)
            self._ends.notes += _without_order(plan)
        return replace(plan, notes=tuple(self._ends.notes)) if isinstance(plan, Pipeline | Define) else plan

    @singledispatchmethod
    def _bind(self, statement: sql.Statement) -> Plan:
        raise TypeError(f"no way to bind {type(statement).__name__}")

    @_bind.register
    def _(self, statement: sql.Select) -> Plan:
        sinks = tuple(
            self._ends.write(self._ends.find(sink, "sink"), sink.settings, sink.at)
            for sink in statement.sinks
        )
        root = self._transform("query", self._keyed(statement.query, sinks))
        if (
            len(sinks) > 1
            and statement.sinks[-1].settings
            and not any(s.settings for s in statement.sinks[:-1])
        ):
            self._ends.notes.append(f"WITH after several sinks sets only the last one, {sinks[-1].label}")
        if not sinks:
            terminal = Described("terminal", connectors.by_name("terminal", statement.at), [])
            sinks = (self._ends.write(terminal, (), statement.at),)
        return Pipeline(statement, root, sinks)

    @_bind.register
    def _(self, statement: sql.Insert) -> Plan:
        own, rest = split(statement.settings, StatementOptions)
        options = bind(StatementOptions, own, "INSERT")
        chosen = {s.key.lower(): s for s in own}
        source = self._file(options.source_config, "source", chosen)
        target = self._ends.find(statement.target, "sink", self._file(options.sink_config, "sink", chosen))
        sinks = (self._ends.write(target, (*statement.target.settings, *rest), statement.target.at),)
        root = self._transform("query", self._keyed(statement.query, sinks), source)
        return Pipeline(statement, root, sinks)

    @_bind.register
    def _(self, statement: sql.CreateSource) -> Plan:
        described = self._ends.created(statement)
        node = self._ends.scan(described, (), None, statement.at)
        return Define(
            statement, statement.kind, statement.name, statement.replace, statement.if_not_exists,
            statement.settings, node,
        )  # fmt: skip

    @_bind.register
    def _(self, statement: sql.CreateView) -> Plan:
        self._views.append(statement.name.lower())
        node = self._transform(f"view {statement.name}", statement.query)
        return Define(statement, "view", statement.name, statement.replace, statement.if_not_exists, (), node)

    @_bind.register
    def _(self, statement: sql.CreateSink) -> Plan:
        connector, settings = connectors.for_settings(
            with_format(statement.settings, statement.row_format, statement.encoding), "sink", statement.at
        )
        sink = self._ends.write(Described(statement.name, connector, settings), (), statement.at)
        root = self._transform("query", self._keyed(statement.query, (sink,)))
        return Pipeline(statement, root, (sink,), name=statement.name)

    @_bind.register
    def _(self, statement: sql.Drop) -> Plan:
        if statement.kind == "connector":
            _not_yet("DROP CONNECTOR", statement.at)
        return Remove(statement, statement.kind, statement.name, statement.if_exists)

    @_bind.register
    def _(self, statement: sql.Show) -> Plan:
        return Listing(statement, statement.kind)

    @_bind.register
    def _(self, statement: sql.Describe) -> Plan:
        target = statement.target
        entry = None if target.is_uri else self._catalog.find(target.name)
        if entry is not None and entry.kind == "view":
            return Description(statement, self._view(entry))
        return Description(
            statement, self._ends.scan(self._ends.find(target, "source"), target.settings, None, target.at)
        )

    @_bind.register
    def _(self, statement: sql.Upkeep) -> Plan:
        target = statement.target
        own, rest = split(target.settings, UpkeepOptions)
        described = self._ends.find(target, "source")
        kind = type(described.connector)
        if getattr(kind, statement.action) is getattr(Connector, statement.action):
            word = statement.action.upper()
            raise StatementError("no-upkeep", f"{kind.name} has no tables for {word}", at=target.at)
        node = self._ends.scan(described, rest, None, target.at)
        retain = bind(UpkeepOptions, own, statement.action.upper()).retain
        return Upkeep(statement, statement.action, node, retain)

    @_bind.register
    def _(self, statement: sql.Explain) -> Plan:
        return Explanation(statement, self.bind(statement.statement))

    @_bind.register
    def _(self, statement: sql.Set) -> Plan:
        key = statement.setting.key
        if not key.startswith("spark.") and key not in config.SETTABLE:
            raise StatementError(
                "unknown-setting",
                f"there is no setting '{key}'",
                at=statement.setting.at,
                hint=f"settable: spark.*, {', '.join(config.SETTABLE)}",
            )
        return Assign(statement, statement.setting)

    @_bind.register
    def _(self, statement: sql.CreateConnector) -> Plan:
        _not_yet(f"CREATE {statement.kind.upper()} CONNECTOR", statement.at)

    @_bind.register
    def _(self, statement: sql.Lifecycle) -> Plan:
        _not_yet(f"{statement.action.upper()} {statement.kind.upper()}", statement.at)

    def _file(self, path: str | None, role: Kind, chosen: Mapping[str, Setting]) -> config.Endpoint | None:
        if path is None:
            return None
        return self._ends.project.endpoint(
            path,
            role,
            at=chosen[f"{role}_config"].at,
            performance_profile=chosen.get("performance_profile"),
            delivery_profile=chosen.get("delivery_profile"),
        )

    def _keyed(self, query: sql.Query, sinks: Sequence[Write]) -> sql.Query:
        """The query with merge keys that a deletion has, too."""
        keys = {key.lower() for sink in sinks for key in getattr(sink.options, "merge_on", ())}
        keyed = query.keyed_by(keys)
        if keyed is not query:
            names = sorted({value.name for value in query.after} & keys)
            self._ends.notes.append(f"the merge key {', '.join(names)} reads `before` where `after` is null")
        return keyed

    def _transform(self, label: str, query: sql.Query, fallback: config.Endpoint | None = None) -> Transform:
        inputs = tuple(self._input(r, query, fallback) for r in query.relations)
        hidden = [node.hidden if isinstance(node, Scan) else frozenset[str]() for node in inputs]
        return Transform(label, query.hiding(hidden), inputs)

    def _input(
        self, relation: sql.Relation, query: sql.Query, fallback: config.Endpoint | None
    ) -> Scan | Transform:
        entry = None if relation.is_uri else self._catalog.find(relation.name)
        if entry is not None and entry.kind == "view":
            if relation.settings:
                refuse_unknown(relation.settings, f"view {entry.name}")
            return self._view(entry, relation.at)
        described = self._ends.find(relation, "source", fallback)
        scan = self._ends.scan(described, relation.settings, query, relation.at)
        return replace(scan, filters=relation.filters)

    def _view(self, entry: Entry, at: Place | None = None) -> Transform:
        if entry.name.lower() in self._views:
            chain = " -> ".join([*self._views, entry.name.lower()])
            raise StatementError("view-cycle", f"view '{entry.name}' reads itself: {chain}", at=at)
        self._views.append(entry.name.lower())
        (statement,) = parse(entry.statement, f"view {entry.name}")
        assert isinstance(statement, sql.CreateView)
        node = self._transform(f"view {entry.name}", statement.query)
        self._views.pop()
        return node


def _without_order(plan: Pipeline) -> Iterator[str]:
    """Tells of sinks that merge, and cannot know which change to a key in a batch is the last."""
    scans = list(plan.root.scans())
    sides = [scan.label for scan in scans if not scan.connector.is_ordered(scan.options)]
    why = "rows of several sources come" if len(scans) > 1 else f"{sides[0]} is read" if sides else None
    for sink in plan.sinks:
        options = sink.options
        if why and isinstance(options, Merging) and options.merge_on and not options.order_by:
            yield (
                f"{why} in no order: where a batch may have several changes to a key, order_by tells"
                f" {sink.label} which is the last"
            )


def _not_yet(what: str, at: Place) -> NoReturn:
    raise StatementError(
        "not-in-this-version",
        f"this version of Penstock reads {what}, but cannot run it",
        at=at,
        hint="a SELECT ... INTO statement moves rows without a connector runtime",
    )
