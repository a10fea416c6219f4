"""A `Session`: statements over one configuration, one catalog and one Spark session."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import config
from penstock.api.outcomes import Checked, Done, Inspected, Outcome, Physical, Ran, Started, Table, Text
from penstock.api.pipeline import Pipeline
from penstock.api.spark import LazySpark
from penstock.catalog import Catalog
from penstock.errors import PenstockError, Place, StatementError
from penstock.options import Setting
from penstock.plan import explain
from penstock.plan.bind import Binder
from penstock.plan.nodes import (
    Assign,
    Define,
    Description,
    Explanation,
    Listing,
    Plan,
    Remove,
    Scan,
    Transform,
    Upkeep,
)
from penstock.plan.nodes import Pipeline as PipelinePlan
from penstock.schema import Column
from penstock.sql.parse import parse
from penstock.sql.secrets import replace_secrets
from penstock.sql.statements import Describe, Endpoint
from penstock.uri import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.letterbox import Letterbox, Stage
    from penstock.engine.replaying import Replayed
    from penstock.engine.standing import Asked, Standing


@dataclass(frozen=True)
class Running:
    """How statements are to run."""

    name: str | None = None
    """A name for the pipelines, in place of their own."""
    dry: bool = False
    """Whether to open sources and check targets only, and move no row."""
    until_caught_up: bool = False
    """Whether streams read what there is, and end."""
    reset: bool = False
    """Whether streams begin anew."""
    replace: bool = False
    """Whether a stream catches up beside the one of its name that runs, and then takes its place."""
    tell: Callable[[str], None] = lambda text: None
    """Told what happens to streams while they run."""
    report: Callable[[dict[str, Any]], None] = lambda report: None
    """Told the numbers of each batch that a stream has done."""


class Session:
    """Statements over one configuration, one catalog and one Spark session, opened when first needed."""

    def __init__(
        self, config: str | Path | config.Project | None = None, *, spark: SparkSession | None = None
    ) -> None:
        from penstock.config import Project, find_project

        self.project = config if isinstance(config, Project) else find_project(config)
        self._spark = LazySpark(spark)
        self._catalog: Catalog | None = None
        self._running: list[Pipeline] = []

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
                binder.set(plan.setting)
            plans.append(plan)
        notes = tuple(
            note for plan in plans if isinstance(plan, PipelinePlan | Define) for note in plan.notes
        )
        return Checked(tuple(plans), text, source, notes)

    def run(
        self,
        text: str,
        source: str = "statement",
        *,
        name: str | None = None,
        until_caught_up: bool = False,
        reset: bool = False,
    ) -> list[Outcome]:
        """Runs every statement of `text`, in order, and waits for the streams among them to end."""
        how = Running(name, until_caught_up=until_caught_up, reset=reset)
        return list(self.run_each(self.check(text, source), how))

    def run_each(self, checked: Checked, how: Running = Running()) -> Iterator[Outcome]:  # noqa: B008
        """Runs checked plans one by one; streams go on beside the next ones, and are awaited at the end."""
        # Invariant 5: only what `check` has bound as a whole comes here.
        names = _names(checked, how.name)
        started: list[Pipeline] = []
        for plan in checked.plans:
            match plan:
                case PipelinePlan() if plan.streaming and not how.dry:
                    started.append(self._start(plan, next(names), checked, how))
                    yield Started(started[-1].name, started[-1].id, tuple(s.label for s in plan.sinks))
                case PipelinePlan():
                    yield self._move(plan, next(names), checked, how.dry)
                case Define():
                    yield Done(
                        "nothing done" if how.dry else self._define(self.catalog, plan, self._stored(plan))
                    )
                case Remove():
                    yield Done("nothing done" if how.dry else self._remove(plan))
                case Listing():
                    yield self._list(plan)
                case Description():
                    yield self._describe(plan, checked)
                case Upkeep():
                    yield Done("nothing done") if how.dry else self._keep_up(plan, checked)
                case Assign():
                    yield self._assign(plan)
                case Explanation():
                    yield Text(explain.render(plan))
        for pipeline in started:
            pipeline.wait()
            yield pipeline.ran()

    def start(
        self,
        text: str,
        source: str = "statement",
        *,
        name: str | None = None,
        until_caught_up: bool = False,
        reset: bool = False,
        replace: bool = False,
    ) -> Pipeline:
        """Starts one stream, and returns while it runs."""
        checked = self.check(text, source)
        (plan, *more) = checked.plans or (None,)
        if more or not isinstance(plan, PipelinePlan) or not plan.streaming:
            hint = "run() takes the rest"
            raise StatementError(
                "not-a-stream", "start() takes one statement over a stream", at=None, hint=hint
            )
        how = Running(name, until_caught_up=until_caught_up, reset=reset, replace=replace)
        return self._start(plan, next(_names(checked, name)), checked, how)

    @property
    def running(self) -> list[Pipeline]:
        """The streams that go on."""
        return [p for p in self._running if p.status not in ("finished", "stopped", "failed")]

    def stop(self) -> None:
        """Lets all streams of this session end after the batch at hand."""
        for pipeline in self._running:
            pipeline.stop()

    def sql(self, text: str) -> DataFrame:
        """The rows of one SELECT as a DataFrame, lazily."""
        checked = self.check(text)
        if len(checked.plans) != 1 or not isinstance(checked.plans[0], PipelinePlan):
            raise StatementError(
                "not-a-select", "sql() takes one SELECT", at=None, hint="run() takes the rest"
            )
        from penstock.engine.build import build

        return build(self._fresh(checked), checked.plans[0].root).frame

    def physical(self, plan: PipelinePlan, checked: Checked) -> Physical:
        """How Spark would run a pipeline: what is pushed down, pruned and skipped."""
        from penstock.engine.build import build, physical_plan
        from penstock.engine.skipping import scans_of

        built = build(self._fresh(checked, plan), plan.root)
        return Physical(physical_plan(built.frame), scans_of(built))

    def spark(self, checked: Checked | None = None) -> SparkSession:
        """The Spark session, with what `checked` needs: jars, and extensions of its SQL."""
        return self._spark.open(self.project, checked.plans if checked else (), busy=bool(self.running))

    def _fresh(self, checked: Checked, plan: Plan | None = None) -> SparkSession:
        return self._spark.fresh(self.project, checked.plans, plan, busy=bool(self.running))

    @property
    def opened(self) -> SparkSession | None:
        """The Spark session if there is one already."""
        return self._spark.session

    def close(self) -> None:
        """Ends what this session started; a Spark session that was handed in goes on."""
        self.stop()
        for pipeline in self._running:
            with suppress(PenstockError):  # who wanted to know has waited for it
                pipeline.wait()
        self._running.clear()
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None
        self._spark.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _move(self, plan: PipelinePlan, name: str, checked: Checked, dry: bool) -> Outcome:
        """Moves the rows of a bounded pipeline."""
        from penstock.engine.build import build
        from penstock.engine.delivery import Run, check_rows, check_targets, deliver
        from penstock.engine.holding import held, register
        from penstock.engine.listener import Watch
        from penstock.engine.progress import Progress
        from penstock.engine.state import State

        spark = self._fresh(checked, plan)
        check_targets(spark, [*plan.sinks, *plan.dead_letters()])
        built = build(spark, plan.root)
        check_rows(built.frame, plan.sinks)
        if dry:
            return Text(f"{explain.render(plan)}\ncolumns: {built.frame.schema.simpleString()}")
        now = datetime.now(timezone.utc)
        if plan.only_looks:
            done = deliver(spark, plan, lambda: built, Run(State(self.state, "terminal"), 0, now))
            return Ran(name, "", done.rows, done.rejected, ("terminal",), done.dead_letters, done.seconds)
        known = register(self.catalog, plan, name)
        state = State(self.state, known.id)
        with held(self.catalog, known, plan, state) as (lease, entry):
            try:
                lease.check()
                done = deliver(spark, plan, lambda: built, Run(state, entry.batches, now))
            except BaseException:
                self.catalog.finish(entry.id, "failed", entry.batches)
                raise
            finally:
                state.forget(entry.batches)
            self.catalog.finish(entry.id, "finished", entry.batches + 1)
            Watch(name, plan, Progress()).delivered(entry.batches, done)
        return Ran(
            name, entry.id, done.rows, done.rejected, tuple(s.label for s in plan.sinks),
            done.dead_letters, done.seconds, done.refused,
        )  # fmt: skip

    def _start(self, plan: PipelinePlan, name: str, checked: Checked, how: Running) -> Pipeline:
        """Starts an unbounded pipeline."""
        if how.replace and self.catalog.pipeline(name) is not None:
            self._catch_up_beside(plan, name, checked, how)
        return self._start_as(plan, name, checked, how)

    def _catch_up_beside(self, plan: PipelinePlan, name: str, checked: Checked, how: Running) -> None:
        """Lets a changed statement read what there is, then ends the old one and gives it its name."""
        from penstock.engine.standing import ask_to_stop, is_running

        beside = f"{name}~next"
        how.tell(f"{name}: the changed statement catches up beside it")
        self._start_as(plan, beside, checked, replace(how, until_caught_up=True)).wait()
        if is_running(self.catalog, name):
            how.tell(f"{name}: ends, and the changed one takes its place")
            ask_to_stop(self.catalog, name).wait()
        self.catalog.take_over(name, beside)

    def _start_as(self, plan: PipelinePlan, name: str, checked: Checked, how: Running) -> Pipeline:
        from penstock.engine.holding import register
        from penstock.engine.streams import Stream

        root, catalog = self.state, self.catalog
        if plan.only_looks:  # it keeps nothing, so that it begins anew each time
            root = Path(tempfile.mkdtemp(prefix="penstock-look-"))
            atexit.register(shutil.rmtree, root, ignore_errors=True)
            catalog = Catalog(root / "catalog.db")
        elif how.reset:
            self.reset(name, missing_ok=True)
        stream = Stream(
            self._fresh(checked, plan),
            plan,
            register(catalog, plan, name),
            root,
            catalog=root / "catalog.db",
            until_caught_up=how.until_caught_up or plan.bounded,
            tell=how.tell,
            report=how.report if not plan.only_looks else lambda report: None,
        )
        pipeline = Pipeline(stream, tuple(sink.label for sink in plan.sinks))
        self._running.append(pipeline)  # it can be stopped while it starts
        stream.start()
        return pipeline

    def standings(self) -> list[Standing]:
        """How all pipelines of this project stand, in whatever process they run."""
        from penstock.engine.standing import standings

        return standings(self._known(), self.state)

    def ask_to_stop(self, name: str) -> Asked:
        """Tells the process that runs a pipeline to end it after the batch at hand."""
        from penstock.engine.standing import ask_to_stop

        return ask_to_stop(self.catalog, name)

    def reset(self, name: str, *, missing_ok: bool = False) -> str | None:
        """Lets a pipeline begin anew when it is next started; the folder of what it kept, which stays."""
        from penstock.engine.leases import refuse_if_held
        from penstock.engine.standing import named
        from penstock.engine.state import State

        if missing_ok and self.catalog.pipeline(name) is None:
            return None
        entry = named(self.catalog, name)
        refuse_if_held(self.catalog, entry)
        self.catalog.renew(name)
        return str(State(self.state, entry.id).folder)

    def dead_letters(self, name: str) -> Letterbox:
        """The dead letters of a pipeline: `groups()` counts them, `letters()` shows them."""
        from penstock.api.replays import letterbox
        from penstock.engine.standing import named

        return letterbox(self, named(self._known(), name))

    def replay(
        self,
        name: str,
        text: str | None = None,
        source: str = "statement",
        *,
        stage: Stage | None = None,
        dry: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> Replayed:
        """Sends the dead letters of a pipeline through its statement again, or through another `text`."""
        from penstock.api import replays
        from penstock.engine.standing import named

        entry = named(self._known(), name)
        checked = replays.statement_of(self, entry, text, source)
        plan = replays.pipeline_in(checked, entry.name, _names(checked, None))
        return replays.replay(
            self, entry, plan, lambda: self._fresh(checked, plan), stage=stage, dry=dry, tell=tell
        )

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

    def _keep_up(self, plan: Upkeep, checked: Checked) -> Table:
        """Makes a table's files fewer, or deletes those of its past."""
        from penstock.engine.failures import at_end

        node, spark = plan.node, self._fresh(checked, plan)
        with at_end(node):
            if plan.action == "optimize":
                done = node.connector.optimize(spark, node.options)
            else:
                done = node.connector.vacuum(spark, node.options, plan.retain)
        return Table(f"{plan.action} {node.label}", ("what", "count"), tuple(done.items()))

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
        if key.startswith("spark."):
            self._spark.set(key, value, plan.setting.at)
        else:
            self.project = self.project.with_setting(plan.setting)
        return Done(f"{key} = {config.redact(key, value)}")


def run(text: str, *, config: str | Path | None = None, name: str | None = None) -> list[Outcome]:
    """Runs statements in a session of their own."""
    with Session(config) as session:
        return session.run(text, name=name)


def _names(checked: Checked, name: str | None) -> Iterator[str]:
    """A name for each pipeline: the one that was asked for, its own, the file's, else a hash of the text."""
    plans = [plan for plan in checked.plans if isinstance(plan, PipelinePlan)]
    stem = Path(checked.source).stem if checked.source.endswith(".sql") else None
    for number, plan in enumerate(plans, 1):
        base = name or stem
        if base is None or (plan.name and name is None):
            yield plan.name or hashlib.sha256(plan.statement.text.encode()).hexdigest()[:8]
        else:
            yield base if number == 1 else f"{base}-{number}"
