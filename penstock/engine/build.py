"""Plan nodes -> DataFrames: the only walker of the plan, and the place where connectors meet formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.connectors.base import REJECTED, ReadRequest
from penstock.engine import failures
from penstock.engine.failures import Asked
from penstock.errors import Place, StatementError
from penstock.plan.nodes import Scan, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

RequestOf = Callable[[Scan], ReadRequest]


@dataclass(frozen=True)
class Reading:
    """A scan, and what was asked of its connector."""

    scan: Scan
    request: ReadRequest

    def rejects(self, spark: SparkSession) -> DataFrame:
        """The records that were rejected."""
        return self.scan.connector.rejects(spark, self.scan.options, self.request)


@dataclass
class Built:
    """A frame, and what is to be asked of its scans once an action on it has run."""

    frame: DataFrame
    rejected: list[tuple[Reading, Observation]] = field(default_factory=list)
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
            [watch for built in inputs for watch in built.rejected],
            [asked, *(query for built in inputs for query in built.queries)],
            [reading for built in inputs for reading in built.readings],
            {at: view for built in inputs for at, view in built.views.items()}
            | {n.at: v for n, v in zip(node.inputs, views, strict=True) if isinstance(n, Scan)},
        )

    def scan(self, scan: Scan) -> Built:
        reading = Reading(scan, self.request_of(scan))
        with failures.in_scan(scan):
            frame = scan.connector.read(self.spark, scan.options, reading.request)
        if REJECTED not in frame.columns:
            return Built(frame, readings=[reading])
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        observation = Observation()
        observed = frame.observe(observation, f.count_if(f.col(REJECTED)).alias("rejected"))
        good = observed.where(~f.col(REJECTED)).drop(REJECTED)
        return Built(good, [(reading, observation)], readings=[reading])


def _is_pruned(node: Scan | Transform) -> bool:
    return isinstance(node, Scan) and node.used is not None


def _whole(node: Scan | Transform) -> Scan | Transform:
    return replace(node, used=None) if isinstance(node, Scan) else node


def observed(spark: SparkSession, observation: Observation) -> int:
    """What an observation counted; 0 when Spark found that it need not run that part of the plan.

    `Observation.get` would wait for ever in that case. So all events are awaited, then the answer is there
    or never comes; only the JVM's side offers both.
    """
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert observation._jo is not None
    row = observation._jo.getRowOrEmpty()
    return int(row.get().get(0)) if row.isDefined() and row.get().size() else 0


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
