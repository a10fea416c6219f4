"""Penstock from Python: `penstock.run("SELECT ...")`, or a `Session` for more than one statement.

A text is checked whole before anything in it runs. Its statements then run in order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import config
from penstock.catalog import Catalog
from penstock.errors import Place, StatementError
from penstock.options import Setting
from penstock.plan import explain
from penstock.plan.bind import Binder
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
)
from penstock.schema import Column
from penstock.sql.parse import parse
from penstock.sql.secrets import replace_secrets
from penstock.sql.statements import Describe, Endpoint
from penstock.uri import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Ran:
    """A pipeline that moved its rows."""

    name: str
    id: str
    rows: int
    rejected: int
    sinks: tuple[str, ...]
    dead_letters: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Done:
    """A statement that changed the catalog or a setting."""

    message: str


@dataclass(frozen=True)
class Table:
    """A statement whose answer is a table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Text:
    """A statement whose answer is a text, such as EXPLAIN."""

    text: str


Outcome = Ran | Done | Table | Text


@dataclass(frozen=True)
class Inspected:
    """What a source holds: its columns, its first rows, and what its connector tells of it."""

    label: str
    connector: str
    format: str | None
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Checked:
    """Plans of a text, bound and ready to run; `text` and `source` are where they came from."""

    plans: tuple[Plan, ...]
    text: str
    source: str
    notes: tuple[str, ...] = field(default=())


class Session:
    """Statements over one configuration, one catalog and one Spark session, opened when first needed."""

    def __init__(
        self, config: str | Path | config.Project | None = None, *, spark: SparkSession | None = None
    ) -> None:
        from penstock.config import Project, find_project

        self.project = config if isinstance(config, Project) else find_project(config)
        self._spark = spark
        self._opened = False
        self._settings: dict[str, str] = {}
        self._catalog: Catalog | None = None
        if spark is not None:
            from penstock.engine.session import use_this_python

            use_this_python(spark)

    @property
    def state(self) -> Path:
        return Path(self.project.state)

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog(self.state / "catalog.db")
        return self._catalog

    def _known(self) -> Catalog:
        """A copy of the catalog, to bind against; none is made where there is none yet."""
        return self.catalog.copy() if self._catalog or (self.state / "catalog.db").exists() else Catalog()

    def check(self, text: str, source: str = "statement") -> Checked:
        """Parses and binds all of `text` without running it, changing anything, or starting Spark."""
        known = self._known()
        binder = Binder(known, self.project)
        plans: list[Plan] = []
        for statement in parse(text, source):
            plan = binder.bind(statement)
            if isinstance(plan, Define):
                self._define(known, plan, plan.statement.text)
            elif isinstance(plan, Remove) and plan.kind != "pipeline":
                known.remove(plan.kind, plan.name, if_exists=plan.if_exists, at=plan.statement.at)
            elif isinstance(plan, Assign) and not plan.setting.key.startswith("spark."):
                binder.project = binder.project.with_setting(plan.setting)
            plans.append(plan)
        notes = tuple(note for plan in plans if isinstance(plan, Pipeline | Define) for note in plan.notes)
        return Checked(tuple(plans), text, source, notes)

    def run(self, text: str, source: str = "statement", *, name: str | None = None) -> list[Outcome]:
        """Runs every statement of `text`, in order."""
        return list(self.run_each(self.check(text, source), name=name))

    def run_each(self, checked: Checked, *, name: str | None = None, dry: bool = False) -> Iterator[Outcome]:
        """Runs checked plans one by one; `dry` opens sources and checks targets, but moves no row."""
        # Invariant 5: only what `check` has bound as a whole comes here.
        names = _names(checked, name)
        for plan in checked.plans:
            match plan:
                case Pipeline():
                    yield self._move(plan, next(names), checked, dry)
                case Define():
                    yield Done(
                        "nothing done" if dry else self._define(self.catalog, plan, self._stored(plan))
                    )
                case Remove():
                    yield Done("nothing done" if dry else self._remove(plan))
                case Listing():
                    yield self._list(plan)
                case Description():
                    yield self._describe(plan, checked)
                case Assign():
                    yield self._assign(plan)
                case Explanation():
                    yield Text(explain.render(plan))

    def sql(self, text: str) -> DataFrame:
        """The rows of one SELECT as a DataFrame, lazily."""
        checked = self.check(text)
        if len(checked.plans) != 1 or not isinstance(checked.plans[0], Pipeline):
            raise StatementError(
                "not-a-select", "sql() takes one SELECT", at=None, hint="run() takes the rest"
            )
        from penstock.engine.build import build

        return build(self._fresh(checked), checked.plans[0].root).frame

    def physical(self, plan: Pipeline, checked: Checked) -> str:
        """Spark's own plan of a pipeline: what is pushed down, pruned and skipped."""
        from penstock.engine.build import build, physical_plan

        return physical_plan(build(self._fresh(checked), plan.root).frame)

    def spark(self, checked: Checked | None = None) -> SparkSession:
        """The Spark session, with the jars that `checked` needs."""
        if self._spark is None:
            from penstock.engine.session import open_session

            secrets = self.project.secrets()
            self._spark = open_session(
                master=self.project.resolved("master", secrets),
                settings={**self.project.resolved("spark", secrets), **self._settings},
                jars=_jars(checked.plans if checked else ()),
            )
            self._opened = True
        return self._spark

    def _fresh(self, checked: Checked) -> SparkSession:
        """A session of its own for a pipeline: views and settings of one never reach another."""
        from penstock.engine.session import MEANING, add_jars

        fresh = self.spark(checked).newSession()
        add_jars(fresh, _jars(checked.plans))
        # A session that we opened has it from the start, with the project's own settings over it.
        meaning = {} if self._opened else MEANING
        for key, value in {**meaning, **self._settings}.items():
            if fresh.conf.isModifiable(key):
                fresh.conf.set(key, value)
        return fresh

    @property
    def opened(self) -> SparkSession | None:
        """The Spark session if there is one already."""
        return self._spark

    def close(self) -> None:
        """Ends what this session started; a Spark session that was handed in goes on."""
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None
        if self._opened:
            from penstock.engine.session import close_session

            close_session()
            self._spark, self._opened = None, False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _move(self, plan: Pipeline, name: str, checked: Checked, dry: bool) -> Outcome:
        from penstock.engine.build import build
        from penstock.engine.delivery import check_targets, deliver
        from penstock.engine.leases import Lease
        from penstock.engine.session import own_processes

        spark = self._fresh(checked)
        letters = [scan.dead_letter for scan in plan.root.scans() if scan.dead_letter is not None]
        check_targets(spark, [*plan.sinks, *letters])
        built = build(spark, plan.root)
        if dry:
            return Text(f"{explain.render(plan)}\ncolumns: {built.frame.schema.simpleString()}")
        if _only_looks(plan):
            done = deliver(spark, plan, built, "terminal", 0, self.state)
            return Ran(name, "", done.rows, done.rejected, ("terminal",), done.dead_letters, done.seconds)
        statement = replace_secrets(plan.statement, lambda _key, _secret: "***")
        ends = ([s.label for s in plan.root.scans()], [s.label for s in plan.sinks])
        known = self.catalog.register(name, statement, *ends)
        with Lease(self.catalog, known, processes=own_processes()) as lease:
            entry = self.catalog.start(known.id, statement, *ends)
            folder = self.state / "pipelines" / entry.id
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "statement.sql").write_text(statement + ";\n", encoding="utf-8")
            (folder / "plan.json").write_text(json.dumps(explain.to_dict(plan), indent=2), encoding="utf-8")
            try:
                lease.check()
                done = deliver(spark, plan, built, entry.id, entry.batches, self.state)
            except BaseException:
                self.catalog.finish(entry.id, delivered=False)
                raise
            self.catalog.finish(entry.id, delivered=True)
        return Ran(
            name, entry.id, done.rows, done.rejected, tuple(s.label for s in plan.sinks),
            done.dead_letters, done.seconds,
        )  # fmt: skip

    def _define(self, catalog: Catalog, plan: Define, text: str) -> str:
        made = catalog.put(
            plan.kind, plan.name, text,
            replace=plan.replace, if_not_exists=plan.if_not_exists, at=plan.statement.at,
        )  # fmt: skip
        return f"created {plan.kind} {plan.name}" if made else f"{plan.name} is there already"

    def _stored(self, plan: Define) -> str:
        """The statement's text for the catalog: its literal secrets go to the secret store instead."""
        store = self.project.secrets()

        def keep(key: str, secret: str) -> str:
            name = f"{plan.name}.{key}"
            store.put(name, secret)
            return f"${{secret:{name}}}"

        return replace_secrets(plan.statement, keep)

    def _remove(self, plan: Remove) -> str:
        gone = self.catalog.remove(plan.kind, plan.name, if_exists=plan.if_exists, at=plan.statement.at)
        return f"dropped {plan.kind} {plan.name}" if gone else f"there is no {plan.kind} {plan.name}"

    def _list(self, plan: Listing) -> Table:
        if plan.kind == "pipeline":
            return Table(
                "pipelines",
                ("name", "id", "state", "batches", "inputs", "outputs", "updated"),
                tuple(
                    (p.name, p.id, p.state, p.batches, ", ".join(p.inputs), ", ".join(p.outputs), p.updated)
                    for p in self.catalog.pipelines()
                ),
            )
        entries = self.catalog.objects(plan.kind)
        return Table(
            f"{plan.kind}s",
            ("name", "version", "owner", "created"),
            tuple((e.name, e.version, e.owner, e.created) for e in entries),
        )

    def _describe(self, plan: Description, checked: Checked) -> Table:
        columns = self.columns(plan.node, checked)
        return Table(
            "columns", ("column", "type", "nullable"), tuple((n, t, str(o).lower()) for n, t, o in columns)
        )

    def columns(self, node: Scan | Transform, checked: Checked) -> list[tuple[str, str, bool]]:
        """Names, types and nullability of a node's columns; asks the source where none are declared."""
        if isinstance(node, Scan) and node.columns:
            return [(c.name, c.type, c.nullable) for c in node.columns]
        from penstock.engine.build import build

        schema = build(self._fresh(checked), node).frame.schema
        return [(f.name, f.dataType.simpleString(), f.nullable) for f in schema]

    def inspect(self, name: str, options: Mapping[str, str] | None = None, *, rows: int = 5) -> Inspected:
        """Looks into a source: a URI, or a name that statements may use."""
        from pyspark.sql import functions

        from penstock.engine.build import build
        from penstock.engine.failures import translate

        known = self._known()
        named = known.find(name) is not None or name in self.project.data_sources
        settings = tuple(Setting(key, value) for key, value in (options or {}).items())
        at = Place("argument", 1, 1, len(name), mask(name, keep_length=True))
        statement = Describe(f"DESCRIBE {mask(name)}", at, Endpoint(name, not named, settings, at))
        plan = Binder(known, self.project).bind(statement)
        assert isinstance(plan, Description)
        spark = self._fresh(Checked((plan,), statement.text, "argument"))
        node, frame = plan.node, build(spark, plan.node).frame
        columns = tuple(Column(f.name, f.dataType.simpleString(), f.nullable) for f in frame.schema)
        try:
            shown = frame.limit(rows).select(
                functions.to_json(functions.struct("*"), {"ignoreNullFields": "false"})
            )
            first = tuple(json.loads(row[0]) for row in shown.collect())
            facts = node.connector.facts(spark, node.options) if isinstance(node, Scan) else {}
        except Exception as failure:
            raise translate(failure) from failure
        if isinstance(node, Transform):
            return Inspected(node.label, "view", None, columns, first, facts)
        format = node.format.name if node.format else None
        return Inspected(node.label, node.connector.name, format, columns, first, facts)

    def _assign(self, plan: Assign) -> Done:
        key, value = plan.setting.key, str(plan.setting.value)
        if not key.startswith("spark."):
            self.project = self.project.with_setting(plan.setting)
        else:
            if self._spark is not None:
                from penstock.engine.build import set_conf

                set_conf(self._spark, key, value, plan.setting.at)
            self._settings[key] = value
        return Done(f"{key} = {config.redact(key, value)}")


def run(text: str, *, config: str | Path | None = None, name: str | None = None) -> list[Outcome]:
    """Runs statements in a session of their own."""
    with Session(config) as session:
        return session.run(text, name=name)


def _names(checked: Checked, name: str | None) -> Iterator[str]:
    """A name for each pipeline: the one that was asked for, its own, the file's, else a hash of the text."""
    plans = [plan for plan in checked.plans if isinstance(plan, Pipeline)]
    stem = Path(checked.source).stem if checked.source.endswith(".sql") else None
    for number, plan in enumerate(plans, 1):
        base = name or stem
        if base is None or (plan.name and name is None):
            yield plan.name or hashlib.sha256(plan.statement.text.encode()).hexdigest()[:8]
        else:
            yield base if number == 1 else f"{base}-{number}"


def _only_looks(plan: Pipeline) -> bool:
    """Whether a pipeline leaves nothing behind, so that it needs no identity."""
    letters = any(scan.options.on_error == "dead_letter" for scan in plan.root.scans())
    return not letters and all(sink.connector.name == "terminal" for sink in plan.sinks)


def _jars(plans: Sequence[Plan]) -> tuple[str, ...]:
    """The jars that the connectors and formats of `plans` need."""
    found: dict[str, None] = {}
    for plan in plans:
        node: Any = plan.plan if isinstance(plan, Explanation) else plan
        root = getattr(node, "root", None) or getattr(node, "node", None)
        scans = [root] if isinstance(root, Scan) else list(root.scans()) if root is not None else []
        for end in (*scans, *getattr(node, "sinks", ())):
            found |= dict.fromkeys(end.connector.jars)
            found |= dict.fromkeys(end.format.jars if end.format else ())
    return tuple(found)
