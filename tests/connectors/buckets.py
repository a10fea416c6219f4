"""Files that are not local in the conformance suite, in Parquet."""

from __future__ import annotations

import io
import tempfile
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.azure import Azure
from penstock.connectors.base import Batch, Connector, SinkOptions, SourceOptions
from penstock.connectors.gcs import Gcs
from penstock.connectors.hdfs import Hdfs
from penstock.connectors.s3 import S3
from penstock.formats.columnar import Parquet

from .subject import Row, Subject, in_utc, known_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BucketSubject(Subject):
    """Files of a bucket; the store's own client reads what was written."""

    required = frozenset(
        {"bounded", "unbounded", "replay", "lookup", "formats", "append", "overwrite", "create_target",
         "transactional", "evolve_schema"}
    )  # fmt: skip
    format = Parquet(Parquet.ReadOptions())
    fixture: str
    server: Any

    def __init__(self) -> None:
        self.bucket = f"conformance-{uuid4().hex[:12]}"
        self._folders: dict[str, int] = {}

    def session(self, spark: SparkSession) -> SparkSession:
        """A session that may enter the bucket, which is made."""
        self.make_bucket()
        return self.entered(spark)

    def entered(self, spark: SparkSession) -> SparkSession:
        """A session that may enter the bucket."""
        access = self.connector.access(self.sink(None))
        session = spark.newSession()
        for key, value in access.settings.items() if access else ():
            session.conf.set(key, value)
        return session

    def make_bucket(self) -> None:
        self.server.create_bucket(self.bucket)

    def at(self, key: str) -> str:
        raise NotImplementedError

    def credentials(self) -> dict[str, Any]:
        raise NotImplementedError

    def batch(self, number: int) -> Batch:
        return replace(super().batch(number), format=Parquet(Parquet.WriteOptions()))

    def declared(self) -> Any:
        return self.columns  # Parquet tells its own

    def source(self) -> SourceOptions:
        return self._source("source")

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        new = name not in self._folders
        source = self._source(name, watch=True)
        if new:
            time.sleep(1 - time.time() % 1)  # stores know whole seconds only, and a stream may start now
        return source

    def _source(self, name: str, **more: Any) -> SourceOptions:
        if name not in self._folders:
            self._folders[name] = 0
            self._put(name, known_rows(0, 10))
            self._put(name, known_rows(10, 10))
        model: Any = self.connector.Source
        options: SourceOptions = model(path=self.at(f"{name}/*.parquet"), **self.credentials(), **more)
        return options

    def add(self, rows: list[Row]) -> None:
        for name in set(self._folders) & {"source", "first"}:
            self._put(name, rows)

    def _put(self, name: str, rows: list[Row]) -> None:
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), file)
        self.write(f"{name}/{self._folders[name]}.parquet", file.getvalue())
        self._folders[name] += 1

    def sink(self, mode: Any) -> SinkOptions:
        model: Any = self.connector.Sink
        options: SinkOptions = model(path=self.at("target/*.parquet"), mode=mode, **self.credentials())
        return options

    def stored(self) -> list[Row]:
        rows: list[Row] = []
        for key in self.keys("target/"):
            if key.endswith(".parquet"):
                table = pq.read_table(io.BytesIO(self.content(key)), coerce_int96_timestamp_unit="us")
                rows += [row | {"at": in_utc(row["at"])} for row in table.to_pylist()]
        return rows

    def leftovers(self) -> list[str]:
        return [key for key in self.keys("target/") if not key.endswith((".parquet", "/"))]

    def write(self, key: str, data: bytes) -> None:
        self.server.put(self.bucket, key, data)

    def content(self, key: str) -> bytes:
        return bytes(self.server.get(self.bucket, key))

    def keys(self, prefix: str) -> list[str]:
        found: list[str] = self.server.keys(self.bucket, prefix)
        return found


class S3Subject(BucketSubject):
    connector: Connector = S3()
    fixture = "s3"

    def at(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def credentials(self) -> dict[str, Any]:
        server = self.server
        return {
            "endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key
        }  # fmt: skip

    def leftovers(self) -> list[str]:
        return super().leftovers() + self.server.uploads(self.bucket)


class GcsSubject(BucketSubject):
    connector: Connector = Gcs()
    fixture = "gcs"

    def at(self, key: str) -> str:
        return f"gs://{self.bucket}/{key}"

    def credentials(self) -> dict[str, Any]:
        return {"endpoint": self.server.endpoint, "project": self.server.project, "anonymous": True}


class AzureSubject(BucketSubject):
    connector: Connector = Azure()
    fixture = "azurite"

    def make_bucket(self) -> None:
        self.server.create_container(self.bucket)

    def at(self, key: str) -> str:
        return f"azure://{self.bucket}/{key}"

    def credentials(self) -> dict[str, Any]:
        from tests.servers.azure import ACCOUNT, KEY

        endpoint = f"http://{self.server.address}"
        return {"endpoint": endpoint, "account": ACCOUNT, "account_key": KEY}

    def leftovers(self) -> list[str]:
        folders = {
            key.rpartition("/")[0] for key in self.keys("target/")
        }  # it keeps an empty blob for a folder
        return [key for key in super().leftovers() if key not in folders | {"target"}]


class HdfsSubject(BucketSubject):
    """Looked into with Hadoop's own client, in the JVM that is there."""

    connector: Connector = Hdfs()
    fixture = "hdfs"

    def make_bucket(self) -> None:
        """A folder, which needs no making."""

    def at(self, key: str) -> str:
        return f"hdfs://{self.server.address}/{self.bucket}/{key}"

    def credentials(self) -> dict[str, Any]:
        return {}

    def write(self, key: str, data: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(data)
            self._client.copyFromLocalFile(False, True, self._path(file.name), self._path(self.at(key)))

    def content(self, key: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            self._client.copyToLocalFile(False, self._path(self.at(key)), self._path(f"{folder}/file"), True)
            return Path(folder, "file").read_bytes()

    def keys(self, prefix: str) -> list[str]:
        root = self._path(self.at(prefix))
        if not self._client.exists(root):
            return []
        files, found = self._client.listFiles(root, True), list[str]()
        while files.hasNext():
            found.append(str(files.next().getPath()).removeprefix(self.at("")))
        return found

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    @cached_property
    def _client(self) -> Any:
        return self._path(self.at("")).getFileSystem(self._jvm.org.apache.hadoop.conf.Configuration())

    @cached_property
    def _jvm(self) -> Any:
        from pyspark import SparkContext

        return SparkContext._jvm
