"""What a batch of changes does to a table, said once for all sinks that merge.

A row is a change to the table's row of the same key: it updates that row, or is inserted where there is none,
or deletes it. Changes to one key come one after the other, by `order_by`, and by arrival where that is equal.
`fold` makes one change of them, which leaves the table as all of them would.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from penstock.connectors.base import AS_ROW, Refused, SinkOptions
from penstock.errors import DataError, StatementError, did_you_mean
from penstock.options import Names
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

OPERATION, BEFORE = "_op", "_before"
"""What a change stream has beside its columns: what happened to the row, and what it was before."""
CHANGE = "_penstock_change"
"""A column that `fold` adds: what is to happen to the row of a key."""
KEPT, ANEW, GONE = "kept", "anew", "gone"
"""It is updated, or inserted; it was deleted in between, so that nothing of it stays; it is deleted."""
_ARRIVED, _ORDER, _DELETES = "_penstock_arrived", "_penstock_order", "_penstock_deletes"
_FIRST, _LAST = "_penstock_first", "_penstock_last"
_TEXT = re.compile("'[^']*'|\"[^\"]*\"")
_NULL_KEY = "penstock-null-key: "


class Merging(SinkOptions):
    """Options of a sink that merges."""

    merge_on: Names = Field(
        (),
        description="The key: columns that tell which row of the table a row changes; without them, rows are"
        " added.",
    )
    delete_on: str | None = Field(
        None,
        description="A condition on rows that delete theirs, such as _action = 'D'; _op = 'delete' where rows"
        " have an `_op`. Columns in it whose names begin with _ are not stored.",
    )
    update_columns: Names = Field(
        (), description="Columns that an update changes; all unless set. An insert takes all."
    )
    insert_only: bool = Field(False, description="Whether rows that are there stay as they are.")
    order_by: Names = Field(
        (),
        description="Columns that tell which of several changes to a key in a batch is the later one; by"
        " arrival unless set. Those whose names begin with _ are not stored.",
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Merging:
        given = [name for name in ("delete_on", "update_columns", "insert_only", "order_by")
                 if getattr(self, name)]  # fmt: skip
        if given and not self.merge_on:
            raise ValueError(f"{given[0]} needs merge_on")
        if self.merge_on and self.mode is not None:
            raise ValueError(f"merge_on and mode = '{self.mode}' exclude each other")
        if self.insert_only and self.update_columns:
            raise ValueError("insert_only and update_columns exclude each other")
        both = {n.lower() for n in self.update_columns} & {n.lower() for n in self.merge_on}
        if both:
            raise ValueError(f"{min(both)} is a key: it does not change")
        return self


def check(frame: DataFrame, sink: Merging) -> None:
    """Raises when rows of these columns cannot be merged as the options say; reads nothing."""
    from pyspark.errors import AnalysisException, ParseException

    known = {column.lower() for column in frame.columns}
    for option in ("merge_on", "update_columns", "order_by"):
        for name in getattr(sink, option):
            if name.lower() not in known:
                raise StatementError(
                    "unresolved-column",
                    f"{option} names the column '{name}', which the rows do not have",
                    at=None,
                    hint=did_you_mean(name, frame.columns) or f"columns there: {', '.join(frame.columns)}",
                )
    try:
        kind = frame.selectExpr(sink.delete_on or "true").schema[0].dataType.typeName()
    except (AnalysisException, ParseException) as failure:
        reason = str(failure).partition("\n")[0]
        raise StatementError("bad-condition", f"delete_on = {sink.delete_on!r}: {reason}", at=None) from None
    if kind != "boolean":
        raise StatementError("bad-condition", f"delete_on is no condition, but a {kind}", at=None)


def stored(frame: DataFrame, sink: Merging) -> list[str]:
    """The columns that the table has: all but those that only say what is to happen."""
    if not sink.merge_on:
        return list(frame.columns)
    named = {word.lower() for word in re.findall(r"\w+", _TEXT.sub("", sink.delete_on or ""))}
    named |= {name.lower() for name in sink.order_by}
    control = {name for name in named if name.startswith("_")} | {OPERATION, BEFORE}
    return [column for column in frame.columns if column.lower() not in control]


def without_keys(frame: DataFrame, sink: Merging) -> tuple[DataFrame, Sequence[Refused]]:
    """The rows that have a key, and those that have none; with `on_error = 'fail'` one stops the job."""
    from functools import reduce
    from operator import or_

    from pyspark.sql import functions as f

    missing = reduce(or_, (f.col(quoted(key)).isNull() for key in sink.merge_on))
    row = f.to_json(f.struct(*(quoted(c) for c in frame.columns)), AS_ROW)
    if sink.on_error == "fail":
        key = next(column for column in frame.columns if column.lower() == sink.merge_on[0].lower())
        stop = f.raise_error(f.concat(f.lit(_NULL_KEY), row)).cast(frame.schema[key].dataType)
        return frame.withColumn(key, f.when(missing, stop).otherwise(f.col(quoted(key)))), ()
    without, why = frame.where(missing), "the merge key is null"
    if sink.on_error == "skip":  # only their number is told
        return frame.where(~missing), [Refused("", why)] * without.count()
    return frame.where(~missing), [Refused(one[0], why) for one in without.select(row).collect()]


def explain_failure(failure: Exception, sink: Merging) -> DataError | None:
    """Our error for a row without a key that `without_keys` has met."""
    found = re.search(rf"{_NULL_KEY}(.*?)(?: SQLSTATE: \w+)?$", str(failure), re.MULTILINE)
    if found is None:
        return None
    return DataError(
        "null-merge-key",
        f"a row has no merge key ({', '.join(sink.merge_on)}): {found[1][:300]}",
        hint="on_error = 'dead_letter' keeps such rows aside, 'skip' drops and counts them",
    )


def fold(frame: DataFrame, sink: Merging) -> DataFrame:
    """One row for each key, with what is to happen in the column `CHANGE`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns, keys = stored(frame, sink), [quoted(key) for key in sink.merge_on]
    # The order of arrival: Spark counts rows in the order of its partitions, and of what stands in them.
    frame = frame.withColumns({_ARRIVED: f.monotonically_increasing_id(), _DELETES: _deletes(frame, sink)})
    order, deletes = [f.col(quoted(name)) for name in (*sink.order_by, _ARRIVED)], f.col(_DELETES)
    if not sink.update_columns and not sink.insert_only:
        latest = Window.partitionBy(*keys).orderBy(*(each.desc() for each in order))
        last = frame.withColumn(_LAST, f.row_number().over(latest)).where(f.col(_LAST) == 1)
        return last.select(*map(quoted, columns), _change(deletes, f.lit(False)))
    frame = frame.withColumn(_ORDER, f.struct(*order))
    deleted = f.max(f.when(deletes, f.col(_ORDER))).over(Window.partitionBy(*keys))
    since = frame.withColumn(_LAST, deleted).where(f.col(_LAST).isNull() | (f.col(_ORDER) >= f.col(_LAST)))
    row = f.struct(*map(quoted, columns))
    ends = since.groupBy(*keys).agg(
        f.min_by(row, f.when(~deletes, f.col(_ORDER))).alias(_FIRST),
        f.max_by(row, _ORDER).alias(_LAST),
        _change(f.max_by(deletes, _ORDER), f.bool_or(deletes)),
    )
    key, changed = ({name.lower() for name in names} for names in (sink.merge_on, sink.update_columns))
    told = {c: _LAST if c.lower() in changed else _FIRST for c in columns if c.lower() not in key}
    # Keys stay as they are, without an alias: so Spark knows that the rows lie by them.
    values = (f.col(f"{told[c]}.{quoted(c)}").alias(c) if c in told else f.col(quoted(c)) for c in columns)
    return ends.select(*values, CHANGE)


def may_delete(frame: DataFrame, sink: Merging) -> bool:
    """Whether any of the changes may delete a row; else all that `fold` says is `KEPT`."""
    return sink.delete_on is not None or OPERATION in (column.lower() for column in frame.columns)


def statement(table: str, changes: str, columns: Sequence[str], sink: Merging, *, deletes: bool) -> str:
    """The MERGE that applies what `fold` made, a view of that name, to a table.

    Without deletions it needs no `CHANGE`, and is the cheaper for it.
    """
    on = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in sink.merge_on)
    keys = {key.lower() for key in sink.merge_on}
    every = [column for column in columns if column.lower() not in keys]
    updated = list(sink.update_columns) or every
    change = f"s.{CHANGE}"
    clauses = [f"WHEN MATCHED AND {change} = '{GONE}' THEN DELETE"] if deletes else []
    if deletes and (sink.update_columns or sink.insert_only) and every:
        clauses.append(f"WHEN MATCHED AND {change} = '{ANEW}' THEN UPDATE SET {_set(every)}")
    if not sink.insert_only and updated:
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {_set(updated)}")
    names, values = ", ".join(map(quoted, columns)), ", ".join(f"s.{quoted(c)}" for c in columns)
    inserted = f"INSERT ({names}) VALUES ({values})"  # noqa: S608 (names are quoted)
    remains = f" AND {change} <> '{GONE}'" if deletes else ""
    clauses.append(f"WHEN NOT MATCHED{remains} THEN {inserted}")
    return "\n".join([f"MERGE INTO {table} t USING {quoted(changes)} s ON {on}", *clauses])


def _set(columns: Sequence[str]) -> str:
    return ", ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in columns)


def _deletes(frame: DataFrame, sink: Merging) -> Expression:
    """Whether a row deletes that of its key; a condition that is null is not met."""
    from pyspark.sql import functions as f

    if sink.delete_on is not None:
        return f.coalesce(f.expr(sink.delete_on), f.lit(False))
    told = f.lower(OPERATION) == "delete" if may_delete(frame, sink) else f.lit(False)
    return f.coalesce(told, f.lit(False))


def _change(gone: Expression, anew: Expression) -> Expression:
    from pyspark.sql import functions as f

    return f.when(gone, GONE).when(anew, ANEW).otherwise(KEPT).alias(CHANGE)
