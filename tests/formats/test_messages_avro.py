"""Messages of Avro: plain, by a schema file, and by a real registry."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fastavro
import pytest

from penstock.errors import DataError, OptionError, SetupError
from penstock.options import Setting, bind
from tests.formats.messaging import check_poison, marked, messages
from tests.formats.reading import columns, reader, request, rows, writer
from tests.servers.process import free_ports
from tests.servers.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AB = columns("a BIGINT, b STRING")


def schema(*fields: Any, name: str = "event") -> dict[str, Any]:
    """A record; a field is its name and type, and its default if it has one."""
    listed = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": listed}


ONE = schema(("a", "long"))
TWO = schema(("a", "long"), ("b", "string", "none"))


def packed(of: dict[str, Any], row: dict[str, Any], id: int | None = None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, of, row)
    return (b"" if id is None else b"\0" + id.to_bytes(4, "big")) + out.getvalue()


def saved(folder: Path, of: dict[str, Any]) -> str:
    path = folder / "s.avsc"
    path.write_text(json.dumps(of))
    return str(path)


@pytest.fixture
def subject() -> str:
    return f"t-{uuid4()}"


def test_plain_avro_by_a_schema_file(spark: SparkSession, tmp_path: Path) -> None:
    kind = {"type": "enum", "name": "kind", "symbols": ["x", "y"]}
    of = schema(
        ("k", kind),
        ("t", {"type": "long", "logicalType": "timestamp-millis"}),
        ("u", {"type": "string", "logicalType": "uuid"}),
        ("m", {"type": "int", "logicalType": "time-millis"}),
    )
    form = reader("avro", schema_file=saved(tmp_path, of))
    sent = b"\x02" + b"\x02" + b"\x02u" + b"\x08"
    found = form.sample(spark, [], "topic t")
    assert found == columns("k STRING, t TIMESTAMP, u STRING, m INT")
    (row,) = form.decode(messages(spark, sent), found, request()).collect()
    assert (row.k, row.t.microsecond, row.u, row.m) == ("y", 1000, "u", 4)


def test_poison_in_plain_avro(spark: SparkSession) -> None:
    (good,) = [bytes(r.value) for r in writer("avro").encode(spark.sql("SELECT 1L AS a, 'x' AS b")).collect()]
    bad = {1: good[:-1], 2: b"\xff" * 20, 3: good + b"!", 4: b""}
    errors = check_poison(messages(spark, good, *bad.values(), good), reader("avro"), AB, bad)
    assert errors[3] == "1 bytes follow the record"
    assert errors[4] == "there is nothing in the message"
    assert errors[1].startswith("not Avro of its schema: ")


def test_a_schema_to_write_by(spark: SparkSession, tmp_path: Path) -> None:
    form = writer("avro", schema_file=saved(tmp_path, TWO))
    assert rows(form.encode(spark.sql("SELECT 1L AS a"))) == [(packed(TWO, {"a": 1, "b": "none"}),)]
    with pytest.raises(DataError, match=r"s\.avsc has no field 'c'"):
        form.encode(spark.sql("SELECT 1L AS a, 2 AS c"))
    with pytest.raises(DataError, match="a field 'a' without a default"):
        form.encode(spark.sql("SELECT 'x' AS b"))
    with pytest.raises(Exception, match="not of the Avro schema"):
        form.encode(spark.sql("SELECT CAST(NULL AS BIGINT) AS a")).collect()


def test_what_avro_cannot_hold(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="Avro has no name 'a b'"):
        writer("avro").encode(spark.sql("SELECT 1 AS `a b`"))
    with pytest.raises(DataError, match="Avro has no type for interval"):
        writer("avro").encode(spark.sql("SELECT INTERVAL '1' DAY AS i"))
    with pytest.raises(DataError, match="Avro has no type for map<int,int>"):
        writer("avro").encode(spark.sql("SELECT map(1, 2) AS m"))


@pytest.mark.parametrize(
    "key",
    ["schema_registry", "schema.registry.url", "schema_registry_url", "value.converter.schema.registry.url"],
)
def test_other_names_of_the_registry(key: str) -> None:
    form = reader("avro")
    options = bind(form.ReadOptions, [Setting(key, "http://h:8081")], "kafka")
    assert options.schema_registry == "http://h:8081"  # type: ignore[attr-defined]


@pytest.mark.parametrize("url", ["host:8081", "file:///etc/passwd", "http://", "http://me:secret@host"])
def test_a_bad_address_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="schema_registry"):
        bind(reader("avro").ReadOptions, [Setting("schema_registry", url)], "kafka")


@pytest.mark.server
def test_two_versions_of_a_schema_in_one_topic(
    spark: SparkSession, registry: Registry, subject: str, tmp_path: Path
) -> None:
    first, second = registry.register(subject, ONE), registry.register(subject, TWO)
    sent = [packed(ONE, {"a": 1}, first), packed(TWO, {"a": 2, "b": "x"}, second)]
    form = reader("avro", schema_registry=registry.url)
    assert form.sample(spark, sent, "topic t") == AB
    assert form.sample(spark, sent[:1], "topic t") == AB[:1]
    assert rows(form.decode(messages(spark, *sent), AB, request())) == [(1, None), (2, "x")]
    as_declared = reader("avro", schema_registry=registry.url, schema_file=saved(tmp_path, TWO))
    assert rows(as_declared.decode(messages(spark, *sent), AB, request())) == [(1, "none"), (2, "x")]


@pytest.mark.server
def test_poison_by_the_registry(spark: SparkSession, registry: Registry, subject: str) -> None:
    id = registry.register(subject, TWO)
    good = packed(TWO, {"a": 1, "b": "x"}, id)
    bad = {1: b"{}", 2: b"\x01" + good[1:], 3: b"\0" + (2**31 - 1).to_bytes(4, "big") + b"x", 4: good[:-1]}
    form = reader("avro", schema_registry=registry.url)
    errors = check_poison(messages(spark, good, *bad.values(), good), form, AB, bad)
    assert errors[1] == errors[2] == "it does not begin with a zero byte and the id of a schema"
    assert errors[3] == f"the registry has no schema {2**31 - 1}"
    with pytest.raises(DataError, match="do not begin with the id of a schema") as caught:
        form.sample(spark, [b"{}"], "topic t")
    assert caught.value.code == "wire-format"


@pytest.mark.server
def test_a_schema_that_refers_to_another(spark: SparkSession, registry: Registry, subject: str) -> None:
    point = schema(("x", "int"), name="point")
    registry.register(f"{subject}-point", point)
    outer = json.dumps(schema(("at", "point")))
    refers = [{"name": "point", "subject": f"{subject}-point", "version": 1}]
    body = {"schema": outer, "schemaType": "AVRO", "references": refers}
    id = int(registry.call("POST", f"/subjects/{subject}/versions", body)["id"])
    form = reader("avro", schema_registry=registry.url)
    sent = b"\0" + id.to_bytes(4, "big") + b"\x0a"
    found = form.sample(spark, [sent], "topic t")
    assert [(c.name, c.type) for c in found] == [("at", "STRUCT<`x`: INT>")]
    assert rows(form.decode(messages(spark, sent), found, request())) == [((5,),)]


@pytest.mark.server
def test_what_is_written_is_registered(spark: SparkSession, registry: Registry, subject: str) -> None:
    form = writer("avro", schema_registry=registry.url)
    frame = spark.sql("SELECT id AS a, 'x' AS b FROM range(3)")
    sent = form.encode(frame, name=subject)
    form.encode(frame, name=subject)
    assert registry.versions(f"{subject}-value") == [1]
    values = [bytes(row.value) for row in sent.collect()]
    (id,) = {int.from_bytes(value[1:5], "big") for value in values}
    assert [f["name"] for f in registry.schema(id)["fields"]] == ["a", "b"]
    read = reader("avro", schema_registry=registry.url)
    found = read.sample(spark, values, "topic t")
    assert sorted(rows(read.decode(sent, found, request()))) == [(0, "x"), (1, "x"), (2, "x")]


@pytest.mark.server
def test_a_new_column_is_compatible(spark: SparkSession, registry: Registry, subject: str) -> None:
    form = writer("avro", schema_registry=registry.url, subject=subject)
    form.encode(spark.sql("SELECT 1L AS a"))
    registry.set_compatibility(subject, "FULL")
    form.encode(spark.sql("SELECT 1L AS a, 'x' AS b"))
    assert registry.versions(subject) == [1, 2]


@pytest.mark.server
def test_an_incompatible_schema_is_refused(spark: SparkSession, registry: Registry, subject: str) -> None:
    form = writer("avro", schema_registry=registry.url, subject=subject)
    form.encode(spark.sql("SELECT 1L AS a"))
    registry.set_compatibility(subject, "BACKWARD")
    with pytest.raises(
        DataError, match=f"refuses the schema of subject '{subject}': .*ncompatible"
    ) as caught:
        form.encode(spark.sql("SELECT 'x' AS a"))
    assert caught.value.code == "schema-refused"
    assert registry.versions(subject) == [1]


@pytest.mark.server
def test_a_schema_that_must_be_there(spark: SparkSession, registry: Registry, subject: str) -> None:
    frame = spark.sql("SELECT 1L AS a")
    waiting = writer("avro", schema_registry=registry.url, auto_register=False)
    with pytest.raises(DataError, match=f"subject '{subject}-value' of the registry") as caught:
        waiting.encode(frame, name=subject)
    assert caught.value.code == "schema-unknown"
    writer("avro", schema_registry=registry.url).encode(frame, name=subject)
    assert waiting.encode(frame, name=subject).count() == 1


@pytest.mark.server
def test_a_registry_that_went_away_is_not_asked_again(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    frame = spark.sql("SELECT 1L AS a, 'x' AS b").coalesce(1)
    with Registry(tmp_path_factory.mktemp("away")) as away:
        out, back = writer("avro", schema_registry=away.url), reader("avro", schema_registry=away.url)
        before = out.encode(frame, name="t")
        assert rows(back.decode(before, AB, request())) == [(1, "x")]
    back.decode(before, AB, request())
    assert rows(out.encode(frame, name="t")) == rows(before)
    with pytest.raises(SetupError, match="does not answer"):
        out.encode(frame, name="another")


def test_a_registry_that_does_not_answer(spark: SparkSession) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    for call in (
        lambda: reader("avro", schema_registry=url).decode(messages(spark, b"x"), AB, request()),
        lambda: reader("avro", schema_registry=url).sample(spark, [b"x"], "topic t"),
        lambda: writer("avro", schema_registry=url).encode(spark.range(1).toDF("a"), name="t"),
    ):
        with pytest.raises(SetupError, match="does not answer") as caught:
            call()
        assert caught.value.code == "registry-unreachable"


@pytest.fixture
def guarded(registry: Registry) -> Iterator[str]:
    """A door before the registry that lets in one user."""
    login = "Basic " + base64.b64encode(b"me:right password").decode()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            allowed = self.headers.get("Authorization") == login
            answer = registry.call("POST", self.path, body) if allowed else {"message": "Unauthorized"}
            self._answer(200 if allowed else 401, answer)

        def do_GET(self) -> None:
            allowed = self.headers.get("Authorization") == login
            answer = registry.call("GET", self.path) if allowed else {"message": "Unauthorized"}
            self._answer(200 if allowed else 401, answer)

        def _answer(self, status: int, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.server
def test_who_is_not_let_in(spark: SparkSession, guarded: str, subject: str) -> None:
    user = {"schema_registry": guarded, "schema_registry_user": "me"}
    wrong, right = ({**user, "schema_registry_password": word} for word in ("wrong", "right password"))
    frame = spark.sql("SELECT 1L AS a, 'x' AS b")
    with pytest.raises(SetupError, match="does not let us in") as caught:
        writer("avro", **wrong).encode(frame, name=subject)
    assert caught.value.code == "registry-denied"
    assert "wrong" not in str(caught.value)
    with pytest.raises(SetupError, match="does not let us in"):
        reader("avro", **wrong).decode(messages(spark, b"x"), AB, request())
    sent = writer("avro", **right).encode(frame, name=subject)
    assert rows(reader("avro", **right).decode(sent, AB, request())) == [(1, "x")]


def test_columns_that_are_not_used_may_be_anything(spark: SparkSession) -> None:
    sent = [packed(TWO, {"a": n, "b": "x"}) for n in (1, 2**40)]
    form = reader("avro")
    plain = writer("avro").encode(spark.sql("SELECT 1L AS a, 'x' AS b"))
    assert rows(form.decode(plain, AB, request("b"))) == [("x",)]
    assert marked(form.decode(messages(spark, *sent), AB, request(on_error="skip"), carried=["_offset"])) == [
        ("bad", 0),
        ("bad", 1),
    ]
