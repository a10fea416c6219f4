"""What a connector that updates and deletes rows must do: the conformance suite's checks of merges."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Column

from .subject import COLUMNS, Row, Subject, frame_of, known_rows, same_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = (*COLUMNS, Column("_op", "STRING"), Column("_seq", "INT"))
WAYS: tuple[dict[str, Any], ...] = ({}, {"update_columns": ("name",)}, {"insert_only": True})


def applied(table: dict[int, Row], changes: list[Row], **way: Any) -> dict[int, Row]:
    """What changes make of a table, one after the other."""
    table = dict(table)
    for change in changes:
        row = {key: value for key, value in change.items() if not key.startswith("_")}
        key = row["id"]
        if change.get("_op") == "delete":
            table.pop(key, None)
        elif key not in table:
            table[key] = row
        elif not way.get("insert_only"):
            changed = way.get("update_columns") or row
            table[key] = table[key] | {name: row[name] for name in changed}
    return table


def changes_by_chance(seed: int, keys: range, count: int) -> list[Row]:
    """Changes to few keys, so that each has several."""
    chance = random.Random(seed)
    return [
        known_rows(chance.choice(keys), 1)[0]
        | {"name": f"change {n}", "amount": float(n)}
        | {"_op": chance.choice(("insert", "update", "update", "delete")), "_seq": n}
        for n in range(count)
    ]


def updates_and_inserts(spark: SparkSession, subject: Subject) -> None:
    sink = subject.merging_sink()
    subject.connector.write(frame_of(spark, known_rows()), sink, subject.batch(0))
    same_rows(subject.stored(), known_rows(), "merged into a new target")
    new = [row | {"name": f"new {row['id']}"} for row in known_rows(10)]
    subject.connector.write(frame_of(spark, new), sink, subject.batch(1))
    same_rows(subject.stored(), known_rows(0, 10) + new, "updated and inserted")


def applies_changes_as_one_by_one(spark: SparkSession, subject: Subject) -> None:
    """Several changes to a key in a batch, in the order of a column, whatever part they stand in."""
    table: dict[int, Row] = {}
    for number, way in enumerate(WAYS):
        sink = subject.merging_sink(order_by=("_seq",), **way)
        changes = changes_by_chance(number, range(15), 80)
        shuffled = random.Random(number).sample(changes, len(changes))
        frame = frame_of(spark, shuffled, columns=CHANGES)
        subject.connector.write(frame.repartition(3), sink, subject.batch(number))
        table = applied(table, changes, **way)
        same_rows(subject.stored(), table.values(), f"several changes to a key, {way or 'all columns'}")


def applies_changes_as_they_arrive(spark: SparkSession, subject: Subject) -> None:
    changes = changes_by_chance(7, range(10), 50)
    frame = frame_of(spark, changes, columns=CHANGES).coalesce(1).sortWithinPartitions("_seq")
    subject.connector.write(frame.drop("_seq"), subject.merging_sink(), subject.batch(0))
    same_rows(subject.stored(), applied({}, changes).values(), "several changes to a key, by arrival")


def repeated_merge_changes_nothing(spark: SparkSession, subject: Subject) -> None:
    """A batch of a stream that runs again has no effect, not even after the next one."""
    batches = [changes_by_chance(seed, range(15), 40) for seed in (11, 12)]
    tables = [applied({}, batches[0]), applied(applied({}, batches[0]), batches[1])]
    for number, newest in ((0, 0), (0, 0), (1, 1), (1, 1), (0, 1)):
        batch = replace(subject.batch(number), streaming=True)
        frame = frame_of(spark, batches[number], columns=CHANGES)
        subject.connector.write(frame, subject.merging_sink(order_by=("_seq",)), batch)
        same_rows(subject.stored(), tables[newest].values(), f"batch {number} after batch {newest}")


def hands_back_rows_without_a_key(spark: SparkSession, subject: Subject) -> None:
    rows = [*known_rows(0, 5), *(row | {"id": None} for row in known_rows(5, 2))]
    sink = subject.merging_sink(on_error="dead_letter")
    refused = subject.connector.write(frame_of(spark, rows), sink, subject.batch(0))
    same_rows(subject.stored(), known_rows(0, 5), "those with a key")
    assert len(refused) == 2, f"{len(refused)} of 2 rows without a key were handed back"


def deletes(spark: SparkSession, subject: Subject) -> None:
    gone = [row | {"name": "gone"} for row in known_rows(5, 10)]
    subject.connector.write(frame_of(spark, known_rows()), subject.merging_sink(), subject.batch(0))
    sink = subject.merging_sink(delete_on="name = 'gone'")
    subject.connector.write(frame_of(spark, [*gone, *known_rows(30, 2)]), sink, subject.batch(1))
    same_rows(subject.stored(), known_rows(0, 5) + known_rows(15, 5) + known_rows(30, 2), "deleted")


UPSERT = (
    updates_and_inserts,
    applies_changes_as_one_by_one,
    applies_changes_as_they_arrive,
    repeated_merge_changes_nothing,
    hands_back_rows_without_a_key,
)
DELETE = (deletes,)
