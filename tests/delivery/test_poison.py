"""Messages that cannot be read and rows that cannot be written, from Kafka on: each is accounted for."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb
import fastavro
import msgpack
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from penstock.api import Ran, Session
from penstock.engine.letterbox import Letter
from tests.servers.kafka import Kafka
from tests.servers.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

ROWS = 5000
SCHEMA = {
    "type": "record",
    "name": "event",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}

Encode = Callable[[int, str], bytes]
COLUMNS = {"text": "line STRING", "raw": "line BINARY NOT NULL"}
ID = "CAST(split(CAST(line AS STRING), ' ')[0] AS BIGINT) AS id"
ENCODE: dict[str, Encode] = {
    "json": lambda id, name: json.dumps({"id": id, "name": name}).encode(),
    "csv": lambda id, name: line(id, name, ","),
    "tsv": lambda id, name: line(id, name, "\t"),
    "avro": lambda id, name: avro(id, name),
    "msgpack": lambda id, name: msgpack.packb({"id": id, "name": name}),
    "text": lambda id, name: f"{id} {name}".encode(),
    "raw": lambda id, name: f"{id} {name}".encode(),
}
BAD: dict[str, Sequence[bytes | None]] = {
    "json": [b'{"id": "seven"}', b"{", b'{"id": 1, "name": "\xff"}', b""],
    "csv": [b"seven,x", b"1", b'1,"x', b""],
    "tsv": [b"seven\tx", b"1,x"],
    "avro": [b"\x80", b""],
    "msgpack": [b"\xc1", msgpack.packb({"id": "seven"}), b""],
    "text": [b"\xff\xfe"],
    "raw": [None],
}
"""Messages that are none, for each format."""


def line(id: int, name: str, separator: str) -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="").writerow([id, name])
    return out.getvalue().encode()


def avro(id: int, name: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"id": id, "name": name})
    return out.getvalue()


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "event.avsc").write_text(json.dumps(SCHEMA))
    with Session(spark=spark) as session:
        yield session


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"poison-{uuid4()}"
    kafka.create_topic(name, 3)
    return name


def restored(letter: Letter) -> bytes | None:
    """The message that a letter was made of."""
    if letter.payload is None:
        return None
    return base64.b64decode(letter.payload) if letter.encoding == "base64" else letter.payload.encode()


def sent_ids(kafka: Kafka, topic: str) -> list[int]:
    return sorted(json.loads(record.value or b"")["id"] for record in kafka.rows(topic))


def check_poison(
    session: Session,
    kafka: Kafka,
    topic: str,
    form: str,
    encode: Encode,
    bad: Sequence[bytes | None],
    more: str,
) -> None:
    """Moves messages of which some are bad: the good ones arrive once, the bad ones are kept as they were."""
    poison = {number: bad[at % len(bad)] for at, number in enumerate(range(0, ROWS, 501))}
    values = (poison[n] if n in poison else encode(n, f"name {n}") for n in range(ROWS))
    kafka.produce(topic, ((None, value, (), None, n % 3) for n, value in enumerate(values)))
    session.run(
        f"CREATE OR REPLACE SOURCE events ({COLUMNS.get(form, 'id BIGINT, name STRING')}) WITH"
        f" (connector = 'kafka', bootstrap_servers = '{kafka.bootstrap}', topic = '{topic}',"
        f" format = '{form}', on_error = 'dead_letter', max_rows_per_batch = 3000{more})"
    )
    text = (
        f"SELECT {ID if form in COLUMNS else 'id'} FROM events INTO 'out/*.parquet',"
        f" 'kafka://{kafka.bootstrap}/{topic}-out' WITH (delivery_guarantee = 'exactly_once')"
    )
    *_, ran = session.run(text, name="p", until_caught_up=True)
    assert isinstance(ran, Ran)
    assert (ran.rows, ran.rejected) == (ROWS - len(poison), len(poison))
    good = [n for n in range(ROWS) if n not in poison]
    assert [row[0] for row in duckdb.sql("SELECT id FROM 'out/*.parquet' ORDER BY id").fetchall()] == good
    assert sent_ids(kafka, f"{topic}-out") == good
    expected = {(topic, n % 3, n // 3): value for n, value in poison.items()}
    assert kept(session) == expected
    again = session.replay("p")
    assert (again.letters, again.rows, again.again) == (len(poison), 0, len(poison))
    assert kept(session) == expected


def kept(session: Session) -> dict[tuple[str, int, int], bytes | None]:
    """The messages in dead letters, by where they stood."""
    letters = session.dead_letters("p").letters()
    assert {letter.stage for letter in letters} == {"read"}
    assert all(letter.error and letter.time for letter in letters)
    found = {}
    for letter in letters:
        place = letter.position or {}
        found[place["topic"], place["partition"], place["offset"]] = restored(letter)
    assert len(found) == len(letters)
    return found


@pytest.mark.parametrize("form", ENCODE)
def test_poison_in_each_format(session: Session, kafka: Kafka, topic: str, form: str) -> None:
    more = ", schema_file = 'event.avsc'" if form == "avro" else ""
    check_poison(session, kafka, topic, form, ENCODE[form], BAD[form], more)


def test_poison_in_avro_of_a_registry(session: Session, kafka: Kafka, registry: Registry, topic: str) -> None:
    number = registry.register(f"{topic}-value", SCHEMA)

    def encode(id: int, name: str) -> bytes:
        return b"\0" + number.to_bytes(4, "big") + avro(id, name)

    half, unknown, bare = encode(1, "x")[:-1], b"\0\x7f\xff\xff\xff" + avro(1, "x"), avro(1, "x")
    more = f", schema_registry = '{registry.url}'"
    check_poison(session, kafka, topic, "avro", encode, [half, unknown, bare], more)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_sink_that_refuses_one_row_in_ten_thousand(
    session: Session, kafka: Kafka, topic: str, guarantee: str
) -> None:
    """The topic takes no large messages, then it does."""
    refused = set(range(0, 100_000, 10_000))
    values = (json.dumps({"id": n, "name": "x" * (2000 if n in refused else 10)}) for n in range(100_000))
    kafka.produce(topic, ((None, value) for value in values))
    target = f"{topic}-out"
    kafka.create_topic(target, 2, {"max.message.bytes": "1500"})
    text = (
        f"SELECT id, name FROM 'kafka://{kafka.bootstrap}/{topic}' WITH (max_rows_per_batch = 40000)"
        f" INTO 'kafka://{kafka.bootstrap}/{target}' WITH (on_error = 'dead_letter',"
        f" delivery_guarantee = '{guarantee}'), 'out/*.parquet'"
    )
    *_, ran = session.run(text, name="p", until_caught_up=True)
    assert isinstance(ran, Ran)
    assert (ran.rows, ran.refused, len(ran.dead_letters)) == (100_000, len(refused), 1)
    assert sent_ids(kafka, target) == [n for n in range(100_000) if n not in refused]
    letters = session.dead_letters("p").letters()
    assert {json.loads(letter.payload or "")["id"] for letter in letters} == refused
    assert {letter.stage for letter in letters} == {"write"}

    assert session.replay("p").again == len(refused)  # nothing has been mended yet
    place = ConfigResource(ResourceType.TOPIC, target)
    place.add_incremental_config(
        ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    )
    for done in kafka.admin.incremental_alter_configs([place]).values():
        done.result()
    done = session.replay("p")
    assert (done.letters, done.rows, done.again, done.left) == (len(refused), len(refused), 0, 0)
    assert sent_ids(kafka, target) == list(range(100_000))
    assert session.dead_letters("p").letters() == []
    told = duckdb.sql("SELECT count(*), count(DISTINCT id) FROM 'out/*.parquet'").fetchall()
    assert told == [(100_000, 100_000)]
