"""Fields that appear while a stream runs: over files and topics, before and after a restart, and a kill."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import fastavro
import msgpack
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from penstock.api import Ran, Session
from penstock.connectors.kafka.connector import Kafka as Connector
from penstock.errors import PenstockError
from tests.connectors.messages import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.kafka import Kafka
    from tests.servers.registry import Registry

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]


@dataclass
class Feed:
    """A source that rows are put into, some at a time."""

    uri: str
    write: Callable[[Rows, int], None]
    options: str = ""
    times: int = 0

    def put(self, rows: Rows) -> None:
        self.write(rows, self.times)
        self.times += 1

    def copy(self, more: str = "", into: str = "'out/*.parquet'") -> str:
        settings = ", ".join(filter(None, (self.options, more)))
        return f"SELECT * FROM '{self.uri}' WITH ({settings}) INTO {into}"


def names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def write_json(rows: Rows, number: int) -> None:
    Path(f"in/{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_csv(rows: Rows, number: int) -> None:
    with Path(f"in/{number}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names(rows))
        writer.writeheader()
        writer.writerows(rows)


def whole(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in names(rows)} for row in rows])


def write_parquet(rows: Rows, number: int) -> None:
    pq.write_table(whole(rows), f"in/{number}.parquet")


def in_files(format: str, write: Callable[[Rows, int], None]) -> Feed:
    return Feed(f"in/*.{format}", write, "watch = true")


def in_topic(kafka: Kafka) -> Feed:
    topic = new_topic(kafka, 2)

    def write(rows: Rows, number: int) -> None:
        kafka.produce(topic, [(None, json.dumps(r), (), None, n % 2) for n, r in enumerate(rows)])

    return Feed(f"kafka://{kafka.bootstrap}/{topic}", write, "format = 'json'")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    with Session(spark=spark) as session:
        yield session


@pytest.fixture(params=["json", "csv", "parquet", pytest.param("kafka", marks=pytest.mark.server)])
def feed(request: pytest.FixtureRequest, session: Session) -> Feed:
    if request.param == "kafka":
        return in_topic(request.getfixturevalue("kafka"))
    writers = {"json": write_json, "csv": write_csv, "parquet": write_parquet}
    return in_files(request.param, writers[request.param])


def plain(*ids: int) -> Rows:
    return [{"id": n, "name": f"n{n}"} for n in ids]


def changed(*ids: int) -> Rows:
    """Rows of which one in the middle has another field."""
    rows = plain(*ids)
    rows[len(rows) // 2]["city"] = "Ulm"
    return rows


def caught_up(session: Session, text: str) -> Ran:
    _, ran = session.run(text, name="p", until_caught_up=True)
    assert isinstance(ran, Ran)
    return ran


def found(columns: str = "id, name, city", path: str = "out/*.parquet") -> list[tuple[Any, ...]]:
    """What another reader sees."""
    query = f"SELECT {columns} FROM read_parquet('{path}', union_by_name = true) ORDER BY id"
    return duckdb.sql(query).fetchall()


def forget_last_commit(session: Session, ran: Ran) -> None:
    """As if the process had been killed after the batch was delivered."""
    commits = session.state / "pipelines" / ran.id / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.glob("[0-9]*"))
    for file in [*commits.glob(str(last)), *commits.glob(f".{last}*")]:
        file.unlink()


def kept(session: Session, ran: Ran) -> list[str]:
    stream = json.loads((session.state / "pipelines" / ran.id / "stream.json").read_text())
    (columns,) = stream["columns"].values()
    return [name for name, *_ in columns]


def test_evolve_adds_the_columns_and_keeps_them(session: Session, feed: Feed) -> None:
    feed.put(plain(*range(100)))
    caught_up(session, feed.copy())
    before = {path: path.read_bytes() for path in Path("out").glob("*.parquet")}
    feed.put(changed(*range(100, 400)))
    ran = caught_up(session, feed.copy())
    assert (ran.rows, ran.rejected) == (300, 0)
    assert kept(session, ran) == ["id", "name", "city"]
    forget_last_commit(session, ran)
    assert caught_up(session, feed.copy()).rows == 300
    feed.put(plain(400))
    feed.put([{"id": 401, "name": "n401", "city": "Bonn"}])
    assert caught_up(session, feed.copy()).rows == 2
    assert kept(session, ran) == ["id", "name", "city"]
    cities = {250: "Ulm", 401: "Bonn"}
    assert found() == [(n, f"n{n}", cities.get(n)) for n in range(402)]
    assert {path: path.read_bytes() for path in before} == before, "an earlier file was touched"


def test_freeze_stops_and_loses_nothing(session: Session, feed: Feed) -> None:
    feed.put(plain(1, 2))
    caught_up(session, feed.copy())
    feed.put(changed(*range(3, 203)))
    for _ in range(2):
        with pytest.raises(PenstockError) as caught:
            caught_up(session, feed.copy("schema_evolution = 'freeze'"))
        assert caught.value.code == "schema-changed"
        where = "offset 51" if feed.uri.startswith("kafka") else "in/1."
        assert "city" in caught.value.message
        assert where in caught.value.message
        assert "'evolve'" in str(caught.value.hint)
        assert caught.value.at is not None
        assert [row[0] for row in found("id")] == [1, 2]
    caught_up(session, feed.copy())
    assert found("id, city")[2:] == [(n, "Ulm" if n == 103 else None) for n in range(3, 203)]


def test_discard_row_leaves_rows_out_and_keeps_them_as_letters(session: Session, feed: Feed) -> None:
    feed.put(plain(1, 2))
    text = feed.copy("schema_evolution = 'discard_row', on_error = 'dead_letter'")
    caught_up(session, text)
    feed.put(changed(*range(3, 203)))
    ran = caught_up(session, text)
    assert (ran.rows, ran.rejected) == (199, 1)
    forget_last_commit(session, ran)
    ran = caught_up(session, text)
    assert (ran.rows, ran.rejected) == (199, 1)
    assert found("id, name") == [(n, f"n{n}") for n in range(1, 203) if n != 103]
    assert kept(session, ran) == ["id", "name"]
    letters = duckdb.sql(f"SELECT payload, error, stage, position FROM '{ran.dead_letters[0]}/*.parquet'")
    ((payload, error, stage, position),) = letters.fetchall()
    assert json.loads(payload) == {"id": 103, "name": "n103", "city": "Ulm"}
    assert (error, stage) == ("unknown fields: city", "read")
    told = json.loads(position)
    assert told["offset"] == 51 if feed.uri.startswith("kafka") else told["row"] == 101


def test_letters_are_taken_after_all(session: Session, feed: Feed) -> None:
    feed.put(plain(1, 2))
    text = feed.copy("schema_evolution = 'discard_row', on_error = 'dead_letter'")
    caught_up(session, text)
    feed.put(changed(3, 4, 5))
    ran = caught_up(session, text)
    done = session.replay("p", text)
    assert (done.letters, done.rows, done.again) == (1, 0, 1)
    done = session.replay("p", text.replace("discard_row", "evolve"))
    assert (done.letters, done.rows, done.again) == (1, 1, 0)
    assert kept(session, ran) == ["id", "name", "city"]
    feed.put(plain(6))
    caught_up(session, text)
    assert found() == [(n, f"n{n}", "Ulm" if n == 4 else None) for n in range(1, 7)]


def test_discard_row_counts_without_letters(session: Session, feed: Feed) -> None:
    feed.put(plain(1))
    text = feed.copy("schema_evolution = 'discard_row'")
    caught_up(session, text)
    feed.put(changed(2, 3, 4))
    ran = caught_up(session, text)
    assert (ran.rows, ran.rejected, ran.dead_letters) == (2, 1, ())
    feed.put(plain(5))
    assert caught_up(session, text).rows == 1
    assert found("id") == [(1,), (2,), (4,), (5,)]


def test_discard_value_leaves_fields_out(session: Session, feed: Feed) -> None:
    feed.put(plain(1))
    text = feed.copy("schema_evolution = 'discard_value'")
    caught_up(session, text)
    feed.put(changed(2, 3, 4))
    ran = caught_up(session, text)
    assert (ran.rows, ran.rejected) == (3, 0)
    assert found("*") == [(n, f"n{n}") for n in range(1, 5)]


def test_columns_that_are_named_are_chosen(session: Session, feed: Feed) -> None:
    feed.put(plain(1))
    text = feed.copy("schema_evolution = 'freeze'").replace("*", "id, name", 1)
    caught_up(session, text)
    feed.put(changed(2, 3, 4))
    assert caught_up(session, text).rows == 3


def test_new_columns_take_part_in_the_query(session: Session) -> None:
    feed = in_files("json", write_json)
    feed.put(plain(1))
    text = feed.copy().replace(" INTO", " WHERE id > 1 INTO")
    caught_up(session, text)
    feed.put([{"id": 2, "name": "n2", "tags": ["a", "b"], "score": 2.5}])
    caught_up(session, text)
    assert found("id, tags, score") == [(2, ["a", "b"], 2.5)]


def test_a_field_without_a_value_is_none(session: Session) -> None:
    feed = in_files("json", write_json)
    feed.put(plain(1))
    text = feed.copy("schema_evolution = 'freeze'")
    caught_up(session, text)
    feed.put([{"id": 2, "name": "n2", "city": None}])
    assert caught_up(session, text).rows == 1
    feed.put([{"id": 3, "name": "n3", "city": None}, {"id": 4, "name": "n4", "city": 7}])
    caught_up(session, text.replace("freeze", "evolve"))
    assert found("id, city") == [(1, None), (2, None), (3, None), (4, 7)]


@pytest.mark.parametrize("policy", ["evolve", "discard_row"])
def test_fields_that_differ_only_in_case_stop_the_stream(session: Session, policy: str) -> None:
    feed = in_files("json", write_json)
    feed.put(plain(1))
    text = feed.copy(f"schema_evolution = '{policy}'")
    caught_up(session, text)
    feed.put([{"id": 2, "Name": "n2"}])
    with pytest.raises(PenstockError) as caught:
        caught_up(session, text)
    assert caught.value.code == "schema-changed"
    assert "Name (first in file" in caught.value.message


def test_another_type_is_a_bad_record(session: Session) -> None:
    feed = in_files("json", write_json)
    feed.put(plain(1))
    caught_up(session, feed.copy())
    feed.put([{"id": "two", "name": "n2"}])
    with pytest.raises(PenstockError) as caught:
        caught_up(session, feed.copy())
    assert caught.value.code == "bad-record"


def test_objects_in_an_array_are_looked_at_each(session: Session) -> None:
    feed = Feed("in/*.json", lambda rows, n: write_json([rows], n), "watch = true")  # type: ignore[list-item]
    feed.put(plain(1, 2))
    caught_up(session, feed.copy())
    feed.put(changed(3, 4, 5))
    caught_up(session, feed.copy())
    assert found("id, city")[2:] == [(3, None), (4, "Ulm"), (5, None)]


def test_rare_fields_are_found_among_frequent_ones(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.formats.unknown._RECORDS", 5)
    feed = in_files("json", write_json)
    feed.put(plain(1))
    caught_up(session, feed.copy())
    rows: Rows = [{"id": n, "often": n} for n in range(2, 200)]
    feed.put([*rows, {"id": 200, "seldom": True}])
    ran = caught_up(session, feed.copy())
    assert kept(session, ran) == ["id", "name", "often", "seldom"]
    assert found("often, seldom")[-2:] == [(199, None), (None, True)]


def test_files_of_folders_named_by_keys(session: Session) -> None:
    def write(rows: Rows, number: int) -> None:
        Path(f"in/day={number}").mkdir()
        write_csv(rows, number)
        Path(f"in/{number}.csv").rename(f"in/day={number}/{number}.csv")

    feed = Feed("in", write, "watch = true, format = 'csv', on_error = 'dead_letter'")
    feed.put(plain(1))
    caught_up(session, feed.copy())
    feed.put(changed(2, 3, 4))
    feed.put(plain(5))
    ran = caught_up(session, feed.copy())
    assert ran.rejected == 0
    assert found("id, city, day") == [(1, None, 0), (2, None, 1), (3, "Ulm", 1), (4, None, 1), (5, None, 2)]


def schema_file(**types: str) -> str:
    fields = [{"name": name, "type": ["null", type]} for name, type in types.items()]
    Path("rows.avsc").write_text(json.dumps({"type": "record", "name": "row", "fields": fields}))
    return "schema_file = 'rows.avsc'"


def test_a_schema_file_comes_before_what_was_found(session: Session, feed: Feed) -> None:
    feed.put(plain(1, 2))
    caught_up(session, feed.copy())
    feed.put(changed(3, 4, 5))
    told = schema_file(id="long", city="string")
    caught_up(session, feed.copy(told))
    assert found() == [
        (1, "n1", None), (2, "n2", None), (3, None, None), (4, None, "Ulm"), (5, None, None),
    ]  # fmt: skip
    feed.put(plain(6))
    schema_file(name="string")
    caught_up(session, feed.copy(told))
    assert found("id, name")[-1] == (None, "n6")


def test_a_schema_file_lets_a_stream_begin_with_nothing(session: Session) -> None:
    feed = in_files("json", write_json)
    caught_up(session, feed.copy(schema_file(id="long", city="string")))
    feed.put(changed(1, 2, 3))
    caught_up(session, feed.copy("schema_file = 'rows.avsc'"))
    assert found("id, city") == [(1, None), (2, "Ulm"), (3, None)]


def test_a_schema_file_that_is_gone_is_told(session: Session) -> None:
    feed = in_files("json", write_json)
    feed.put(plain(1))
    caught_up(session, feed.copy())
    with pytest.raises(PenstockError, match=r"cannot read schema file rows\.avsc") as caught:
        caught_up(session, feed.copy("schema_file = 'rows.avsc'"))
    assert caught.value.at is not None


def write_orc(rows: Rows, number: int) -> None:
    orc.write_table(whole(rows), f"in/{number}.orc")


def write_avro(rows: Rows, number: int) -> None:
    types = {"id": "long", "name": "string", "city": "string"}
    fields = [{"name": name, "type": ["null", types[name]], "default": None} for name in names(rows)]
    with Path(f"in/{number}.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)


def write_msgpack(rows: Rows, number: int) -> None:
    Path(f"in/{number}.msgpack").write_bytes(b"".join(msgpack.packb(row) for row in rows))


@pytest.mark.parametrize(
    ("format", "write"), [("orc", write_orc), ("avro", write_avro), ("msgpack", write_msgpack)]
)
def test_other_formats_of_files(session: Session, format: str, write: Callable[[Rows, int], None]) -> None:
    follows(session, in_files(format, write))


def follows(session: Session, feed: Feed) -> None:
    """Whether one row among others with a new field is noticed, and the field delivered."""
    feed.put(plain(1))
    caught_up(session, feed.copy())
    feed.put(changed(2, 3, 4))
    feed.put(plain(5))
    with pytest.raises(PenstockError) as caught:
        caught_up(session, feed.copy("schema_evolution = 'freeze'"))
    assert caught.value.code == "schema-changed"
    caught_up(session, feed.copy())
    assert found("id, city") == [(1, None), (2, None), (3, "Ulm"), (4, None), (5, None)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows whenever a topic is read only to find new fields."""
    found, look = list[str](), Connector.unknown

    def counted(self: Connector, spark: SparkSession, source: Any, request: Any) -> Any:
        found.append(self.identity(source))
        return look(self, spark, source, request)

    monkeypatch.setattr(Connector, "unknown", counted)
    return found


@pytest.mark.server
def test_messages_are_read_once_as_long_as_nothing_is_new(
    session: Session, kafka: Kafka, looks: list[str]
) -> None:
    feed, topic = in_topic(kafka), new_topic(kafka)
    feed.put(plain(*range(100)))
    caught_up(session, feed.copy())
    feed.put([{"id": 100, "name": None}, {"id": 101}, {"id": 102, "name": 'a "b"\n', "city": None}])
    ran = caught_up(session, feed.copy())
    assert (looks, kept(session, ran)) == ([], ["id", "name"])
    feed.put(changed(103, 104, 105))
    caught_up(session, feed.copy())
    assert (len(looks), kept(session, ran)) == (1, ["id", "name", "city"])
    assert [row[0] for row in found()] == list(range(106))
    # What such a topic has of a batch that fails, it keeps.
    feed.put(plain(106))
    caught_up(session, feed.copy(into=f"'kafka://{kafka.bootstrap}/{topic}', 'out/*.parquet'"))
    assert len(looks) == 2


@pytest.mark.server
@pytest.mark.parametrize(
    "message",
    [
        pytest.param('{"id": 9, "name": "a\\"b", "city": "Ulm"}', id="with an escape"),
        pytest.param('{"id": 9,\n"city": "Ulm"}', id="in two lines"),
        pytest.param('[{"id": 8}, {"id": 9, "city": "Ulm"}]', id="in an array"),
        pytest.param('{"city": "Ulm", "id": 9, "name": "naïve"}', id="not ASCII"),
        pytest.param('{"id": 9, "city": ["Ulm"]}', id="nested"),
    ],
)
def test_new_fields_of_any_message_are_met(
    session: Session, kafka: Kafka, looks: list[str], message: str
) -> None:
    topic = new_topic(kafka)
    text = f"SELECT * FROM 'kafka://{kafka.bootstrap}/{topic}' WITH (format = 'json') INTO 'out/*.parquet'"
    kafka.produce(topic, [(None, json.dumps(row)) for row in plain(*range(200))])
    caught_up(session, text)
    kafka.produce(topic, [(None, json.dumps(row)) for row in plain(*range(300, 400))] + [(None, message)])
    ran = caught_up(session, text)
    assert (len(looks), kept(session, ran)) == (1, ["id", "name", "city"])
    ids = [*range(200), *range(300, 400), 9, *([8] if "8" in message else [])]
    assert [row[0] for row in found("id")] == sorted(ids)


@pytest.mark.server
def test_messages_of_messagepack(session: Session, kafka: Kafka) -> None:
    topic = new_topic(kafka)
    write = lambda rows, _: kafka.produce(topic, [(None, msgpack.packb(row)) for row in rows])  # noqa: E731
    follows(session, Feed(f"kafka://{kafka.bootstrap}/{topic}", write, "format = 'msgpack'"))


@pytest.mark.server
def test_messages_of_avro_by_the_schemas_of_a_registry(
    session: Session, kafka: Kafka, registry: Registry
) -> None:
    topic = new_topic(kafka)
    uri, options = (
        f"kafka://{kafka.bootstrap}/{topic}",
        f"format = 'avro', schema_registry = '{registry.url}'",
    )

    def write(rows: Rows, number: int) -> None:
        write_parquet(rows, number)
        session.run(f"SELECT * FROM 'in/{number}.parquet' INTO '{uri}' WITH ({options})")

    follows(session, Feed(uri, write, options))


@pytest.mark.server
def test_into_a_topic_of_json(session: Session, kafka: Kafka) -> None:
    feed, topic = in_files("json", write_json), new_topic(kafka)
    into = f"'kafka://{kafka.bootstrap}/{topic}' WITH (delivery_guarantee = 'exactly_once')"
    feed.put(plain(1))
    caught_up(session, feed.copy(into=into))
    feed.put(changed(2, 3, 4))
    ran = caught_up(session, feed.copy(into=into))
    forget_last_commit(session, ran)
    caught_up(session, feed.copy(into=into))
    rows = sorted((json.loads(record.value) for record in kafka.rows(topic)), key=lambda row: row["id"])
    assert rows == [*plain(1), *changed(2, 3, 4)]
