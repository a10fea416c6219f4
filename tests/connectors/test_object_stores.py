"""Files in buckets, by statements, against each store's emulator; looked into with the store's own client."""

from __future__ import annotations

import gzip
import io
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api import Ran, Session
from penstock.connectors.hdfs import Hdfs
from penstock.errors import PenstockError
from tests.servers.azure import Azurite

from .buckets import AzureSubject, BucketSubject, GcsSubject, HdfsSubject, S3Subject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

STORES = {"s3": S3Subject, "gcs": GcsSubject, "azure": AzureSubject, "hdfs": HdfsSubject}
IN_BUCKETS = pytest.mark.parametrize("store", ["s3", "gcs", "azure"], indirect=True)
ROWS = [{"id": n, "kind": "ab"[n % 2], "at": f"2024-03-0{1 + n % 2}T10:00:00Z"} for n in range(10)]


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with Session(spark=spark) as session:
        yield session


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> BucketSubject:
    """A bucket of its own."""
    made: BucketSubject = STORES[request.param]()
    made.server = request.getfixturevalue(made.fixture)
    made.make_bucket()
    return made


def end(store: BucketSubject, key: str, **options: Any) -> str:
    """A source or sink as it stands in a statement."""
    settings = {**store.credentials(), **options}
    words = ", ".join(f"{key} = {_value(value)}" for key, value in settings.items())
    return f"'{store.at(key)}' WITH ({words})" if words else f"'{store.at(key)}'"


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | int) else f"'{value}'"


def run(session: Session, text: str, **more: Any) -> Ran:
    ran = session.run(text, **more)[-1]
    assert isinstance(ran, Ran)
    return ran


def failure_of(session: Session, text: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        run(session, text)
    return caught.value


def tables(store: BucketSubject, prefix: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each Parquet file."""
    return {
        key: pq.read_table(io.BytesIO(store.content(key))).to_pylist()
        for key in store.keys(prefix)
        if key.endswith(".parquet")
    }


def ids(store: BucketSubject, prefix: str) -> list[int]:
    return sorted(row["id"] for rows in tables(store, prefix).values() for row in rows)


@pytest.mark.parametrize("ending", ["json", "csv.gz", "parquet", "orc", "avro", "msgpack.gz"])
def test_rows_go_and_come_back(session: Session, store: BucketSubject, ending: str) -> None:
    run(session, f"SELECT id, kind FROM 'rows.jsonl' INTO {end(store, f'out/*.{ending}')}")
    again = run(session, f"SELECT * FROM {end(store, f'out/*.{ending}')} INTO 'back/*.parquet'", name="back")
    assert again.rows == 10
    back = pq.read_table("back").to_pylist()
    assert sorted((int(r["id"]), r["kind"]) for r in back) == [(r["id"], r["kind"]) for r in ROWS]


def test_text_and_bytes_go_and_come_back(session: Session, store: BucketSubject) -> None:
    run(session, f"SELECT kind AS value FROM 'rows.jsonl' WHERE id < 3 INTO {end(store, 'out/a.txt')}")
    text = f"SELECT value AS kind FROM {end(store, 'out/*.txt')} INTO 'back/*.parquet'"
    assert run(session, text, name="text").rows == 3
    assert sorted(pq.read_table("back")["kind"].to_pylist()) == ["a", "a", "b"]
    source = end(store, "out/*", format="binary")
    run(session, f"SELECT content, length FROM {source} INTO 'bytes/*.parquet'", name="bytes")
    assert pq.read_table("bytes").to_pylist() == [{"content": store.content("out/a.txt"), "length": 6}]


def test_messagepack_in_folders_by_time_and_column(session: Session, store: BucketSubject) -> None:
    into = end(
        store, "out/day={YYYY-MM-DD}/*.msgpack", timestamp_column="at", partition_by="kind", batch_size=2
    )
    text = f"SELECT id, kind, CAST(at AS TIMESTAMP) AS at FROM 'rows.jsonl' INTO {into}"
    run(session, text)
    names = store.keys("out/day=2024-03-02/kind=b/")
    assert sum(name.endswith(".msgpack") for name in names) >= 3
    back = f"SELECT day, kind, id FROM {end(store, 'out/', format='msgpack')} INTO 'back/*.parquet'"
    assert run(session, back, name="back").rows == 10
    found = sorted(pq.read_table("back").to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["kind"], str(row["day"])) for row in found] == [
        (row["id"], row["kind"], row["at"][:10]) for row in ROWS
    ]
    assert not list(session.state.rglob("*.msgpack"))


def test_partitions_are_replaced_and_read(session: Session, store: BucketSubject) -> None:
    into = end(store, "out/", format="parquet", partition_by="kind", mode="overwrite")
    for _ in range(2):
        run(session, f"SELECT id, kind FROM 'rows.jsonl' INTO {into}", name="p")
    assert ids(store, "out/") == list(range(10))
    assert {key.split("/")[1] for key in tables(store, "out/")} == {"kind=a", "kind=b"}
    text = f"SELECT id, kind FROM {end(store, 'out/', format='parquet')} WHERE kind = 'b' INTO 'b/*.parquet'"
    assert run(session, text, name="b").rows == 5


def test_paths_by_the_time_of_each_row(session: Session, store: BucketSubject) -> None:
    into = end(store, "out/day={YYYY-MM-DD}/*.parquet", timestamp_column="at")
    run(session, f"SELECT id, CAST(at AS TIMESTAMP) AS at FROM 'rows.jsonl' INTO {into}")
    found = {key.split("/")[1]: [row["id"] for row in rows] for key, rows in tables(store, "out/").items()}
    assert {day: sorted(rows) for day, rows in found.items()} == {
        "day=2024-03-01": [0, 2, 4, 6, 8], "day=2024-03-02": [1, 3, 5, 7, 9]
    }  # fmt: skip


def test_one_file_of_just_that_name(session: Session, store: BucketSubject) -> None:
    run(session, f"SELECT id FROM 'rows.jsonl' INTO {end(store, 'out/all.json.gz')}")
    lines = gzip.decompress(store.content("out/all.json.gz")).decode().splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(10))


def test_a_bounded_statement_must_say_what_to_do_with_rows(session: Session, store: BucketSubject) -> None:
    text = f"SELECT id FROM 'rows.jsonl' INTO {end(store, 'out/*.parquet')}"
    run(session, text)
    with pytest.raises(PenstockError) as caught:
        run(session, text)
    assert caught.value.code == "target-not-empty"
    run(
        session, f"SELECT id FROM 'rows.jsonl' INTO {end(store, 'out/*.parquet', mode='append')}", name="more"
    )
    assert ids(store, "out/") == sorted([*range(10), *range(10)])


def test_files_are_watched_and_archived(session: Session, store: BucketSubject) -> None:
    def put(name: str, *numbers: int) -> None:
        file = io.BytesIO()
        pq.write_table(pa.table({"id": list(numbers)}), file)
        store.write(f"in/{name}.parquet", file.getvalue())

    source = end(store, "in/*.parquet", watch=True, archive_to=store.at("done"))
    text = f"SELECT id FROM {source} INTO {end(store, 'out/*.parquet')}"
    put("a", 1, 2)
    run(session, text, name="w", until_caught_up=True)
    put("b", 3)
    run(session, text, name="w", until_caught_up=True)
    assert ids(store, "out/") == [1, 2, 3]
    assert tables(store, "in/") == {}
    assert sorted(tables(store, "done/")) == ["done/a.parquet", "done/b.parquet"]


def test_files_are_deleted_once_read(session: Session, store: BucketSubject) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), file)
    for name in ("x/a", "y/b", "y/other"):
        store.write(f"in/{name}.parquet", file.getvalue())
    source = end(store, "in/*/[ab].parquet", watch=True, delete_after_read=True, files_per_batch=1)
    text = f"SELECT id FROM {source} INTO {end(store, 'out/*.parquet')}"
    run(session, text, name="w", until_caught_up=True)
    assert ids(store, "out/") == [1, 1, 2, 2]
    assert list(tables(store, "in/")) == ["in/y/other.parquet"]


@pytest.mark.parametrize("ending", ["parquet", "orc", "avro"])
def test_files_of_another_type_and_damaged_ones(session: Session, store: BucketSubject, ending: str) -> None:
    """They stop a statement, or are set aside by their names."""
    for name, value in (("good", "id"), ("texts", "kind")):
        into = end(store, f"in/{name}.{ending}")
        run(session, f"SELECT {value} AS v FROM 'rows.jsonl' INTO {into}", name=name)
    fields = [{"name": "v", "type": ["null", "long"]}]
    Path("v.avsc").write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    text = "SELECT v FROM {} INTO 'back/*.parquet'"
    with pytest.raises(PenstockError) as caught:
        run(session, text.format(end(store, f"in/*.{ending}", schema_file="v.avsc")), name="fails")
    assert caught.value.code == "column-types", caught.value
    assert f"in/texts.{ending} has v as STRING, which cannot be read as BIGINT" in caught.value.message
    store.write(f"in/damaged.{ending}", b"nothing of this kind" * 20)
    source = end(store, f"in/*.{ending}", schema_file="v.avsc", on_error="dead_letter")
    kept = run(session, text.format(source), name="keeps")
    assert (kept.rows, kept.rejected) == (10, 2)
    letters = {str(letter.position): letter.error for letter in session.dead_letters("keeps").letters()}
    damaged, texts = sorted(letters)
    assert f"in/damaged.{ending}" in damaged
    assert letters[damaged] == f"not a whole {ending} file"
    assert f"in/texts.{ending}" in texts
    assert letters[texts] == "v is STRING, which cannot be read as BIGINT"


@IN_BUCKETS
def test_a_bucket_that_is_not_there(session: Session, store: BucketSubject) -> None:
    store.bucket = "nowhere-to-be-found"
    for text in (
        f"SELECT id FROM 'rows.jsonl' INTO {end(store, 'out/*.parquet')}",
        f"SELECT id FROM {end(store, 'in/*.parquet')} INTO 'back/*.parquet'",
    ):
        failure = failure_of(session, text)
        assert failure.code == "missing-bucket", failure
        assert "nowhere-to-be-found" in failure.message
        assert failure.at is not None
    assert not Path("back").exists()


@IN_BUCKETS
def test_a_store_that_is_away(session: Session, store: BucketSubject) -> None:
    credentials = store.credentials() | {"endpoint": "http://127.0.0.1:9"}
    store.credentials = lambda: credentials  # type: ignore[method-assign]
    failure = failure_of(session, f"SELECT id FROM 'rows.jsonl' INTO {end(store, 'out/*.parquet')}")
    assert failure.code == "store-unreachable", failure


def test_a_name_node_that_is_away(session: Session) -> None:
    """It is told, and waited for as the sink says."""
    into = "INTO 'hdfs://127.0.0.1:9/out/*.parquet'"
    for text in (
        f"SELECT id FROM 'rows.jsonl' {into}",
        "SELECT id FROM 'hdfs://127.0.0.1:9/in/*.parquet' INTO 'back/*.parquet'",
    ):
        failure = failure_of(session, text)
        assert failure.code == "store-unreachable", failure
        assert "hdfs://127.0.0.1:9" in failure.message
        assert Hdfs().is_passing(failure)


def test_a_wrong_key_of_azure(session: Session, azurite: Azurite) -> None:
    store = AzureSubject()
    store.server = azurite
    store.make_bucket()
    wrong = end(store, "x/*.parquet", account_key=b64encode(b"not-the-right-one").decode())
    for text in (
        f"SELECT id FROM 'rows.jsonl' INTO {wrong}",
        f"SELECT id FROM {wrong} INTO 'back/*.parquet'",
    ):
        failure = failure_of(session, text)
        assert failure.code == "access-denied", failure
        assert failure.at is not None
    run(session, f"SELECT id FROM 'rows.jsonl' INTO {end(store, 'x/*.parquet')}")
    assert ids(store, "x/") == list(range(10))
