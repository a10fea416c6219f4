"""What may be said of files in stores: where they are, where they go once read, how the store is entered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from penstock.api import Session
from penstock.connectors import azure, files, gcs, hdfs, s3
from penstock.connectors.azure import Azure
from penstock.connectors.base import Connector
from penstock.connectors.delta.connector import Delta
from penstock.connectors.gcs import Gcs
from penstock.connectors.hdfs import Hdfs
from penstock.connectors.hudi.connector import Hudi
from penstock.connectors.s3 import S3
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ABFSS = "abfss://c@a.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (gcs.Source(bucket="b", path="orders/*.json"), "gs://b/orders/*.json"),
        (gcs.Sink(bucket="b", path="/orders/"), "gs://b/orders/"),
        (gcs.Source(path="gs://b/x"), "gs://b/x"),
        (s3.Source(bucket="b", path="/orders/"), "s3://b/orders/"),
        (azure.Sink(container="c", account="a", path="x/"), f"{ABFSS}/x/"),
        (hdfs.Source(path="hdfs:///x"), "hdfs:///x"),
    ],
)
def test_a_path_begins_in_its_store(options: Any, path: str) -> None:
    assert options.path == path


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (gcs.Source, {}),
        (gcs.Sink, {"path": "bucket/x"}),
        (gcs.Source, {"path": "/data/x"}),
        (gcs.Source, {"path": "s3://bucket/x"}),
        (gcs.Sink, {"path": "gcs://bucket/x"}),
        (gcs.Source, {"bucket": "b", "path": "s3://b/x"}),
        (hdfs.Source, {}),
        (hdfs.Sink, {"path": "/data/x"}),
        (hdfs.Source, {"path": "data/x"}),
        (hdfs.Sink, {"path": "gs://bucket/x"}),
        (s3.Sink, {"path": "gs://bucket/x"}),
        (azure.Source, {"path": "azure://c/x"}),
        (azure.Sink, {"path": "c/x", "account": "a"}),
    ],
)
def test_a_path_that_is_not_in_the_store(model: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"expected (a path in a bucket|hdfs:|azure:)"):
        model(**options)


@pytest.mark.parametrize(
    ("model", "options", "place"),
    [
        (files.Source, {"path": "in/", "archive_to": "done"}, "done"),
        (files.Source, {"path": "/in/", "archive_to": "file:///done"}, "file:///done"),
        (s3.Source, {"path": "s3://b/in/", "archive_to": "s3://b/done"}, "s3://b/done"),
        (s3.Source, {"path": "s3://b/in/", "archive_to": "done/x"}, "s3://b/done/x"),
        (s3.Source, {"bucket": "b", "path": "in/", "archive_to": "done"}, "s3://b/done"),
        (gcs.Source, {"path": "gs://b/in/", "archive_to": "done"}, "gs://b/done"),
        (azure.Source, {"container": "c", "account": "a", "archive_to": "done"}, f"{ABFSS}/done"),
        (azure.Source, {"path": f"{ABFSS}/in", "archive_to": "done"}, f"{ABFSS}/done"),
        (
            azure.Source,
            {"path": "azure://c/in", "account": "a", "archive_to": "azure://c/done"},
            f"{ABFSS}/done",
        ),
        (hdfs.Source, {"path": "hdfs://n:8020/in", "archive_to": "done"}, "hdfs://n:8020/done"),
    ],
)
def test_files_are_archived_where_they_are(model: Any, options: dict[str, Any], place: str) -> None:
    assert model(watch=True, **options).archive_to == place


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (files.Source, {"path": "in/", "archive_to": "s3://b/done"}),
        (s3.Source, {"path": "s3://b/in/", "archive_to": "s3://other/done"}),
        (s3.Source, {"path": "s3://b/in/", "archive_to": "/tmp/done"}),
        (s3.Source, {"path": "s3://b/in/", "archive_to": "~/done"}),
        (s3.Source, {"path": "s3://b/in/", "archive_to": "file:/tmp/done"}),
        (gcs.Source, {"path": "gs://b/in/", "archive_to": "gs://other/done"}),
        (azure.Source, {"path": f"{ABFSS}/in", "archive_to": "azure://c/done"}),
        (azure.Source, {"path": "azure://c/in", "account": "a", "archive_to": "azure://other/done"}),
        (hdfs.Source, {"path": "hdfs://n:8020/in", "archive_to": "hdfs://other:8020/done"}),
    ],
)
def test_files_are_archived_nowhere_else(model: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="files can only be archived"):
        model(watch=True, **options)


@pytest.mark.parametrize(
    ("connector", "one", "other"),
    [
        (S3(), s3.Source(path="s3://b/x"), s3.Sink(path="s3a://b/y", anonymous=True)),
        (Gcs(), gcs.Source(path="gs://a/x"), gcs.Sink(path="gs://b/y")),
        (
            Azure(),
            azure.Source(path="azure://c/x", account="a"),
            azure.Sink(path="azure://d/x", account="a", sas_token="t"),
        ),
        (Hdfs(), hdfs.Source(path="hdfs://n:1/x"), hdfs.Sink(path="hdfs://n:1/y")),
    ],
)
def test_what_is_entered_in_one_way(connector: Connector, one: Any, other: Any) -> None:
    places = [access.place for access in map(connector.access, (one, other)) if access]
    assert len(places) == 2
    assert places[0] == places[1]


def test_two_accounts_and_two_buckets_are_entered_each_in_its_way() -> None:
    accounts = [
        azure.Source(path="azure://c/x", account=name, account_key="k", endpoint=f"http://{name}:1")
        for name in "ab"
    ]
    settings = [options.hadoop() for options in accounts]
    shared = settings[0].keys() & settings[1].keys()
    assert {key: settings[0][key] for key in shared} == {key: settings[1][key] for key in shared}
    buckets = [S3().access(s3.Source(path=f"s3://{name}/x", anonymous=name == "a")) for name in "ab"]
    assert {access.place for access in buckets if access} == {"a", "b"}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("'gs://a/*.parquet' WITH (service_account_file = 'key.json')", "'gs://b/x/' WITH (anonymous = true"),
        ("'gs://a/*.parquet' WITH (anonymous = true)", "'gs://b/x/' WITH (project = 'p', anonymous = true"),
        ("'s3://b/*.parquet'", "'s3://b/x/' WITH (profile = 'dev'"),
    ],
)
def test_ways_that_have_no_setting_in_common_are_two(
    spark: SparkSession, session: Session, source: str, sink: str
) -> None:
    with pytest.raises(PenstockError) as caught:
        session.run(f"SELECT id FROM {source} INTO {sink}, format = 'parquet')")
    assert caught.value.code == "two-accesses", caught.value


def test_hudi_takes_on_no_role() -> None:
    with pytest.raises(ValidationError, match="takes on no role"):
        Hudi.Source(path="s3://b/t", role_arn="arn:aws:iam::1:role/x")


def test_hudi_knows_no_hdfs() -> None:
    with Session() as session, pytest.raises(PenstockError) as caught:
        session.check("SELECT * FROM 'hudi+hdfs://n:8020/x'")
    assert caught.value.code == "no-connector", caught.value
    assert "delta+hdfs" in Delta.schemes
