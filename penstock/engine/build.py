"""Plan nodes -> DataFrames: the only walker of the plan, and the place where connectors meet formats."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from penstock.connectors.base import REJECTED
from penstock.engine import failures
from penstock.engine.failures import Asked
from penstock.errors import Place, StatementError
from penstock.plan.nodes import Scan, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

_numbers = count(1)


@dataclass
class Built:
    """A frame, and what is to be asked of its scans once an action on it has run."""

    frame: DataFrame
    rejected: list[tuple[Scan, Observation]] = field(default_factory=list)
    queries: list[Asked] = field(default_factory=list)


def build(spark: SparkSession, node: Scan | Transform) -> Built:
    """The rows of a node; analysed by Spark, but not read."""
    return _scan(spark, node) if isinstance(node, Scan) else _transform(spark, node)


def _transform(spark: SparkSession, node: Transform) -> Built:
    inputs = [build(spark, child) for child in node.inputs]
    views = [f"penstock_{next(_numbers)}" for _ in inputs]
    for view, built in zip(views, inputs, strict=True):
        built.frame.createOrReplaceTempView(view)
    asked = Asked(node, tuple(views))
    try:
        with failures.in_query(asked):
            frame = spark.sql(asked.text)
    except StatementError as failure:
        if failure.code == "unresolved-column" and any(_is_pruned(child) for child in node.inputs):
            # Only columns that the query names were opened; among all of them Spark finds the nearest.
            _transform(spark, replace(node, inputs=tuple(map(_whole, node.inputs))))
        raise
    return Built(
        frame,
        [watch for built in inputs for watch in built.rejected],
        [asked, *(query for built in inputs for query in built.queries)],
    )


def _scan(spark: SparkSession, scan: Scan) -> Built:
    with failures.in_scan(scan):
        frame = scan.connector.read(spark, scan.options, scan.request)
    if REJECTED not in frame.columns:
        return Built(frame)
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    observation = Observation()
    observed = frame.observe(observation, f.count_if(f.col(REJECTED)).alias("rejected"))
    return Built(observed.where(~f.col(REJECTED)).drop(REJECTED), [(scan, observation)])


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
