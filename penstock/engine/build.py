"""Plan nodes -> DataFrames: the only walker of the plan, and the place where connectors meet formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.connectors.base import AS_ROW, METADATA, PAYLOAD, POSITION, REJECTED, ReadRequest
from penstock.engine import failures
from penstock.engine.failures import Asked
from penstock.errors import Place, StatementError
from penstock.plan.nodes import Scan, Transform
from penstock.schema import quoted
from penstock.sql.statements import Query

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, Observation, SparkSession

RequestOf = Callable[[Scan], ReadRequest]
_FAILED = "_penstock_failed"


@dataclass(frozen=True)
class Reading:
    """A scan, and what was asked of its connector."""

    scan: Scan
    request: ReadRequest

    def rejects(self, spark: SparkSession) -> DataFrame:
        """The records that were rejected."""
        return self.scan.connector.rejects(spark, self.scan.options, self.request)


@dataclass(frozen=True)
class Counter:
    """How many rows of a frame meet a condition, told by whatever action runs on it."""

    frame: DataFrame
    """The frame to use from now on."""
    condition: Expression
    observation: Observation

    @classmethod
    def on(cls, frame: DataFrame, condition: Expression) -> Counter:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        observation = Observation()
        return cls(frame.observe(observation, f.count_if(condition).alias("rows")), condition, observation)

    def count(self) -> int:
        """Counts by itself when no action told: Spark skipped that part of the plan, or a sink hid it.

        `Observation.get` would wait for ever in that case. So all events are awaited, then the answer is
        there or never comes; only the JVM's side offers both.
        """
        self.frame.sparkSession.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        assert self.observation._jo is not None
        row = self.observation._jo.getRowOrEmpty()
        if row.isDefined() and row.get().size():
            return int(row.get().get(0))
        return self.frame.where(self.condition).count()


@dataclass(frozen=True)
class Rejection:
    """Records of a scan that are left out: how many, once an action has run, and which."""

    reading: Reading
    counter: Counter
    query: Query | None = None
    """That whose CASTs fail on them; None when they were not to be read."""
    strange: bool = False
    """Whether they have values in columns that are `strange`; else they could not be read."""

    @property
    def stage(self) -> str:
        return "read" if self.query is None else "query"

    def records(self, spark: SparkSession) -> DataFrame:
        """The records: payload, encoding, error, and where they stand."""
        if self.query is None and not self.strange:
            return self.reading.rejects(spark)
        scan, request = self.reading.scan, self.reading.request
        frame = _good(scan.connector.traced(spark, scan.options, request))
        if self.query is None:
            return _as_rejects(frame.withColumn(_FAILED, _strange_fields(request.strange)))
        if request.strange:
            frame = frame.where(_strange_fields(request.strange) == "").drop(*request.strange)
        checked = _with_failed(frame, self.query)
        assert checked is not None
        return _as_rejects(checked)


@dataclass
class Built:
    """A frame, and what is to be asked of its scans once an action on it has run."""

    frame: DataFrame
    rejected: list[Rejection] = field(default_factory=list)
    queries: list[Asked] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    views: dict[Place, str] = field(default_factory=dict)
    """The view of each scan, by its place."""


def build(
    spark: SparkSession, node: Scan | Transform, request_of: RequestOf = attrgetter("request")
) -> Built:
    """The rows of a node; analysed by Spark, but not read. `request_of` says what is asked of a scan."""
    return _Builder(spark, request_of).build(node)


class _Builder:
    def __init__(self, spark: SparkSession, request_of: RequestOf) -> None:
        self.spark, self.request_of = spark, request_of
        # The same names each time: a stream builds its query anew for each batch.
        self.views = (f"penstock_{number}" for number in count(1))

    def build(self, node: Scan | Transform) -> Built:
        return self.scan(node) if isinstance(node, Scan) else self.transform(node)

    def transform(self, node: Transform) -> Built:
        inputs = [self.build(child) for child in node.inputs]
        if len(inputs) == 1 and inputs[0].readings and isinstance(node.inputs[0], Scan):
            inputs = [_without_failed_casts(inputs[0], node.query)]
        views = [next(self.views) for _ in inputs]
        for view, built in zip(views, inputs, strict=True):
            built.frame.createOrReplaceTempView(view)
        asked = Asked(node, tuple(views))
        try:
            with failures.in_query(asked):
                frame = self.spark.sql(asked.text)
        except StatementError as failure:
            if failure.code == "unresolved-column" and any(_is_pruned(child) for child in node.inputs):
                # Only columns that the query names were opened; among all of them Spark finds the nearest.
                self.transform(replace(node, inputs=tuple(map(_whole, node.inputs))))
            raise
        return Built(
            frame,
            [rejection for built in inputs for rejection in built.rejected],
            [asked, *(query for built in inputs for query in built.queries)],
            [reading for built in inputs for reading in built.readings],
            {at: view for built in inputs for at, view in built.views.items()}
            | {n.at: v for n, v in zip(node.inputs, views, strict=True) if isinstance(n, Scan)},
        )

    def scan(self, scan: Scan) -> Built:
        reading = Reading(scan, self.request_of(scan))
        with failures.at_end(scan):
            frame = scan.connector.read(self.spark, scan.options, reading.request)
        built = Built(frame, readings=[reading])
        if REJECTED in frame.columns:
            from pyspark.sql import functions as f

            counter = Counter.on(frame, f.col(REJECTED))
            good = counter.frame.where(~f.col(REJECTED)).drop(REJECTED)
            built = Built(good, [Rejection(reading, counter)], readings=[reading])
        return _without_strange(built, reading) if reading.request.strange else built


def _without_strange(built: Built, reading: Reading) -> Built:
    """The rows without values in columns that are there only to find such rows."""
    from pyspark.sql import functions as f

    names = reading.request.strange
    checked = built.frame.withColumn(_FAILED, _strange_fields(names))
    counter = Counter.on(checked, f.col(_FAILED) != "")
    good = counter.frame.where(f.col(_FAILED) == "").drop(_FAILED, *names)
    rejection = Rejection(reading, counter, strange=True)
    return replace(built, frame=good, rejected=[*built.rejected, rejection])


def _strange_fields(names: Sequence[str]) -> Expression:
    """What is wrong with a row that has values in columns of these names; nothing for others."""
    from pyspark.sql import functions as f

    found = f.concat_ws(", ", *(f.when(f.col(quoted(name)).isNotNull(), f.lit(name)) for name in names))
    return f.when(found != "", f.concat(f.lit("unknown fields: "), found)).otherwise("")


def _good(frame: DataFrame) -> DataFrame:
    """The rows that could be read."""
    from pyspark.sql import functions as f

    return frame.where(~f.col(REJECTED)).drop(REJECTED) if REJECTED in frame.columns else frame


def _without_failed_casts(built: Built, query: Query) -> Built:
    """The rows of one scan, less those on which a CAST of the query over it fails, where that is not to stop.

    Rows that the query's WHERE leaves out are left out here too: on them nothing may fail.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    (reading,) = built.readings
    checked = _with_failed(built.frame, query) if reading.request.on_error != "fail" else None
    if checked is None:
        return built
    counter = Counter.on(checked, f.col(_FAILED) != "")
    good = counter.frame.where(f.col(_FAILED).isNull()).drop(_FAILED)
    # Spark joins no filter of the query with this one across an observation, so the bad rows are gone for it.
    good = good.observe(Observation(), f.count(f.lit(1)).alias("rows"))
    return replace(built, frame=good, rejected=[*built.rejected, Rejection(reading, counter, query)])


def _with_failed(frame: DataFrame, query: Query) -> DataFrame | None:
    """The rows with what `Query.failed_cast` tells of them; None where the query is not that simple."""
    from pyspark.errors import AnalysisException

    if query.failed_cast is None:
        return None
    label = query.relations[0].label
    try:
        named = frame.alias(label) if label else frame
        return named.selectExpr("*", f"{query.failed_cast} AS {_FAILED}")
    except AnalysisException:
        return None  # what is wrong is told when the query itself is analysed


def _as_rejects(frame: DataFrame) -> DataFrame:
    """The rows of a traced frame with which something is wrong, as what `Connector.rejects` gives."""
    from pyspark.sql import functions as f

    own = [quoted(c) for c in frame.columns if c not in (PAYLOAD, POSITION, METADATA, _FAILED)]
    row = f.to_json(f.struct(*own), AS_ROW)
    payload, encoding = row, f.lit("row")
    if PAYLOAD in frame.columns:
        text = f.col(PAYLOAD).cast("string")
        # Other rows of a message that holds several are delivered: only this one is kept.
        single = f.col(PAYLOAD).isNotNull() & ~f.ltrim(text).startswith("[")
        is_text = f.is_valid_utf8(f.col(PAYLOAD))
        whole = f.when(is_text, text).otherwise(f.base64(f.col(PAYLOAD)))
        payload = f.when(single, whole).otherwise(row)
        encoding = f.when(~single, "row").when(is_text, "text").otherwise("base64")
    position = f.lit(None).cast("string")
    if POSITION in frame.columns:
        told = frame.schema[POSITION].dataType.typeName() == "string"
        position = f.col(POSITION) if told else f.to_json(POSITION)
    return frame.where(f.col(_FAILED) != "").select(
        payload.alias("payload"),
        encoding.alias("encoding"),
        f.col(_FAILED).alias("error"),
        position.alias("position"),
    )


def _is_pruned(node: Scan | Transform) -> bool:
    return isinstance(node, Scan) and node.used is not None


def _whole(node: Scan | Transform) -> Scan | Transform:
    return replace(node, used=None) if isinstance(node, Scan) else node


def physical_plan(frame: DataFrame) -> str:
    """Spark's physical plan in words."""
    assert frame._sc._jvm is not None
    return str(frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))


def set_conf(spark: SparkSession, key: str, value: str, at: Place | None) -> None:
    """Changes a setting of a session that runs already."""
    if not spark.conf.isModifiable(key):
        raise StatementError(
            "fixed-setting",
            f"cannot change {key} once Spark runs",
            at=at,
            hint="put it under `spark:` in penstock.yaml, or SET it first",
        )
    spark.conf.set(key, value)
