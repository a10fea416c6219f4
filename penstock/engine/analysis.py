"""What a query over a stream may do: whatever needs one row at a time, and never the ones before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.build import Built
from penstock.errors import StatementError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROW_BY_ROW = frozenset(
    {
        *("Project", "Filter", "TypedFilter", "Generate", "Sample", "Union", "MapInArrow", "CollectMetrics"),
        *("SubqueryAlias", "View", "WithCTE", "CTERelationDef", "CTERelationRef", "LogicalRDD"),
        *("LocalRelation", "Repartition", "RepartitionByExpression", "RebalancePartitions"),
        *("ResolvedHint", "UnresolvedHint"),
    }
)
_IN_WORDS = {
    "Aggregate": "an aggregate, or GROUP BY,",
    "Distinct": "DISTINCT",
    "Deduplicate": "DISTINCT",
    "Window": "a window function",
    "Sort": "ORDER BY",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Offset": "OFFSET",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
}
_KEEPS = {"Inner": (True, True), "Cross": (True, True), "LeftOuter": (True, False), "LeftSemi": (True, False),
          "LeftAnti": (True, False), "RightOuter": (False, True), "ExistenceJoin": (True, False)}  # fmt: skip
"""Joins that can go row by row, and whether they can over the rows of the left or of the right side."""


def check(built: Built, streams: frozenset[str]) -> None:
    """Raises for a query that cannot go batch by batch; `streams` are the views of its unbounded sources."""
    for what in _Walk(built.frame, streams).obstacles():
        raise StatementError(
            "needs-whole-stream",
            f"{what} over a stream needs rows of earlier batches, and this version keeps none",
            at=built.queries[0].node.query.at if built.queries else None,
            hint="read what there is as a batch, from files or a table; or move the rows, and ask there",
        )


class _Walk:
    def __init__(self, frame: DataFrame, streams: frozenset[str]) -> None:
        self._root: Any = frame._jdf.queryExecution().analyzed()
        self._streams = streams
        self._common: dict[int, bool] = {}
        """Whether the WITH of this number reads a stream."""

    def obstacles(self) -> Iterator[str]:
        yield from self._visit(self._root)[1]

    def _visit(self, node: Any) -> tuple[bool, list[str]]:
        """Whether a node gives rows of a stream, and what in it cannot go row by row."""
        name = node.getClass().getSimpleName()
        if name == "WithCTE":
            return self._with(node)
        if name == "CTERelationRef":
            return self._common.get(node.cteId(), False), []
        below = [self._visit(child) for child in _seq(node.children())]
        found = [what for _, obstacles in below for what in obstacles]
        found += [w for query in _seq(node.subqueries()) for w in self._subquery(query)]
        streaming = any(is_stream for is_stream, _ in below)
        if name == "SubqueryAlias" and node.alias() in self._streams:
            streaming = True
        if streaming and name == "Join":
            found += self._join(node, [is_stream for is_stream, _ in below])
        elif streaming and name not in _ROW_BY_ROW:
            found.append(_IN_WORDS.get(name, name))
        return streaming, found

    def _with(self, node: Any) -> tuple[bool, list[str]]:
        found: list[str] = []
        for definition in _seq(node.cteDefs()):
            self._common[definition.id()], obstacles = self._visit(definition.child())
            found += obstacles
        streaming, obstacles = self._visit(node.plan())
        return streaming, found + obstacles

    def _subquery(self, query: Any) -> list[str]:
        streaming, found = self._visit(query)
        return [*found, "a subquery"] if streaming else found

    def _join(self, node: Any, streaming: list[bool]) -> list[str]:
        kind = node.joinType().toString().partition("(")[0]
        if all(streaming):
            return ["a join of two streams"]
        side = 0 if streaming[0] else 1
        return [] if _KEEPS.get(kind, (False, False))[side] else [f"a join of kind {kind}"]


def _seq(items: Any) -> Iterator[Any]:
    return (items.apply(i) for i in range(items.size()))
