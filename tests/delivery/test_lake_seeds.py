"""The examples with tables that people were promised, on a real Kafka and S3; others look into the tables."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from penstock.api import Session
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3
from tests.waiting import until

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.spark, pytest.mark.server]

Row = dict[str, Any]


def catalog() -> SqlCatalog:
    """The project's own catalog, as another engine opens it."""
    state = Path.cwd() / ".penstock"
    return SqlCatalog("catalog", uri=f"sqlite:///{state}/iceberg.db", warehouse=f"file://{state}/iceberg")


def change(kind: str, before: Row | None, after: Row | None, table: str = "orders") -> str:
    """A change as a source of changes tells it: the rows are JSON of their own."""
    values = {"before": before, "after": after}
    return json.dumps(
        {"operation_type": kind, "table_name": table}
        | {side: json.dumps(row) if row else None for side, row in values.items()}
    )


def order(number: int, status: str) -> Row:
    return {
        "id": str(number),
        "customer_id": f"c{number % 3}",
        "status": status,
        "updated_at": f"2024-{number}",
    }


def test_database_changes_to_iceberg(session: Session, kafka: Kafka) -> None:
    topic = f"changes-{uuid4().hex[:8]}"
    kafka.create_topic(topic, 1)
    text = f"""
        CREATE OR REPLACE SOURCE changes
          (operation_type STRING, table_name STRING, before STRING, after STRING)
          WITH (connector = 'kafka', bootstrap_servers = '{kafka.bootstrap}', topic = '{topic}');
        SELECT
          CASE
            WHEN operation_type = 'DELETE' THEN 'D'
            ELSE 'U'
          END as _action,
          after->>'id' as id,
          after->>'customer_id' as customer_id,
          after->>'status' as status,
          after->>'updated_at' as updated_at
        FROM changes
        WHERE table_name = 'orders'
        INTO 'iceberg://catalog.warehouse.orders_mirror'
        WITH (
          merge_on = 'id',
          delete_on = '_action = "D"'
        );
    """
    new, paid = ([order(n, status) for n in range(10)] for status in ("new", "paid"))
    first = [change("INSERT", None, row) for row in new]
    first += [change("UPDATE", new[n], paid[n]) for n in (1, 2, 3)]
    first += [change("DELETE", paid[2], None), change("INSERT", None, order(99, "other"), "customers")]
    first += [change("DELETE", new[4], None), change("INSERT", None, order(4, "again"))]
    kafka.produce(topic, [(None, message) for message in first])
    session.run(text, name="mirror", until_caught_up=True)
    table = catalog().load_table("warehouse.orders_mirror")
    wanted = {row["id"]: row for row in [*new, paid[1], paid[3], order(4, "again")]}
    del wanted["2"]
    rows = table.scan().to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == wanted
    assert len(rows) == len(wanted)
    second = [
        change("UPDATE", new[5], paid[5]),
        change("DELETE", new[0], None),
        change("DELETE", paid[1], None),
    ]
    kafka.produce(topic, [(None, message) for message in second])
    session.run(text, name="mirror", until_caught_up=True)
    wanted["5"] = paid[5]
    del wanted["0"], wanted["1"]
    rows = table.refresh().scan().to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == wanted
    assert len(rows) == len(wanted)


def test_a_join_of_kafka_s3_and_iceberg_to_delta(session: Session, kafka: Kafka, s3: S3, spark: Any) -> None:
    topic, bucket = f"orders-{uuid4().hex[:8]}", f"warehouse-{uuid4().hex[:8]}"
    s3.create_bucket(bucket)
    kafka.create_topic(topic, 1)
    Path("penstock.yaml").write_text(s3.project)

    def customers(segment: str) -> None:
        file = io.BytesIO()
        rows = [
            {"customer_id": n, "customer_segment": f"{segment}{n}", "lifetime_value": n * 10.0}
            for n in (1, 2)
        ]
        pq.write_table(pa.Table.from_pylist(rows), file)
        s3.put(bucket, "customers/all.parquet", file.getvalue())

    def stock(amount: int) -> None:
        there = catalog()
        there.create_namespace_if_not_exists("inventory")
        rows = pa.table(
            {"product_id": pa.array([7, 8], pa.int64()), "current_inventory": [amount, amount + 1]}
        )
        table = there.create_table_if_not_exists("inventory.current_stock", rows.schema)
        (table.overwrite if table.current_snapshot() else table.append)(rows)

    def orders(*numbers: int) -> None:
        rows = (
            {"order_id": n, "customer_id": n % 3, "product_id": 7 + n % 3, "amount": 499.0 + n}
            for n in numbers
        )
        kafka.produce(topic, [(None, json.dumps(row)) for row in rows])

    text = f"""
        SELECT
          k.order_id,
          k.customer_id,
          k.amount,
          h.customer_segment,
          h.lifetime_value,
          i.current_inventory
        FROM 'kafka://{kafka.bootstrap}/{topic}' k
        LEFT JOIN 's3://{bucket}/customers/*.parquet' h
          ON k.customer_id = h.customer_id
        LEFT JOIN 'iceberg://catalog.inventory.current_stock' i
          ON k.product_id = i.product_id
        WHERE k.amount > 500.00
        INTO 'delta://lakehouse/enriched_orders/'
        WITH (
          mode = 'append',
          optimize_write = true
        );
    """

    def enriched(number: int, segment: str, amount: int) -> Row:
        known, there = number % 3 in (1, 2), number % 3 in (0, 1)
        return {
            "order_id": number,
            "customer_id": number % 3,
            "amount": 499.0 + number,
            "customer_segment": f"{segment}{number % 3}" if known else None,
            "lifetime_value": number % 3 * 10.0 if known else None,
            "current_inventory": amount + number % 3 if there else None,
        }

    Path(".penstock").mkdir()
    customers("old")
    stock(100)
    orders(*range(6))
    with Session(spark=spark) as own:
        pipeline = own.start(text, name="enriched")
        until(lambda: pipeline.progress.rows == 4, "the first orders")
        customers("new")
        stock(200)
        orders(6, 7, 8)
        until(lambda: pipeline.progress.rows == 7, "orders after both tables have changed")
        pipeline.stop()
        assert pipeline.wait(60)
    rows = DeltaTable("lakehouse/enriched_orders").to_pyarrow_table().to_pylist()
    wanted = [enriched(n, "old", 100) for n in range(2, 6)] + [enriched(n, "new", 200) for n in (6, 7, 8)]
    assert sorted(rows, key=lambda row: row["order_id"]) == wanted
