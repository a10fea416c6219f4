"""What files in stores of objects have in common; each store is a module of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import SecretStr, model_validator

from penstock.connectors import storage as stores
from penstock.connectors.base import Access, Batch, Column, ReadRequest, Refused
from penstock.connectors.files import Files
from penstock.connectors.staging import Committer
from penstock.connectors.storage import root_of
from penstock.errors import DataError, PenstockError, SetupError, said
from penstock.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_PLACE = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": (
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
    ),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""Lets Spark's writers use the committer that Hadoop has for a store."""
COMMITTERS_JAR = "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1"


class ByManifest(Committer):
    """Tasks list what they have written, and all is renamed at the end, file by file."""

    def __init__(self, **factories: str) -> None:
        """The class of the committer for each scheme."""
        self._factories = {f"mapreduce.outputcommitter.factory.scheme.{s}": f for s, f in factories.items()}

    def settings(self, label: str) -> Mapping[str, str]:
        return {**IN_PLACE, **self._factories}


def told(secret: SecretStr | None) -> str | None:
    """A secret, for Hadoop alone."""
    return secret.get_secret_value() if secret else None


class InStore(Options):
    """Where files stand: at a path that begins with its store, or in a bucket that is named."""

    begins: ClassVar[str]
    """What a path there begins with, as Hadoop writes it."""
    expected: ClassVar[str]
    """The same for people, with other ways to say it."""

    path: str

    @classmethod
    def named_root(cls, values: Mapping[str, Any]) -> str | None:
        """What the bucket is called that these options name."""
        return None

    @classmethod
    def spelled(cls, path: str, values: Mapping[str, Any]) -> str:
        """A path as Hadoop writes it."""
        return path

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, values: Any) -> Any:
        """Paths without a scheme begin in the bucket: that of the options, or that of the files."""
        path = values.get("path") or ""
        root = cls.named_root(values)
        whole = {"path": cls.spelled(_below(root, path.lstrip("/")) if root else path, values)}
        if archive := values.get("archive_to"):
            whole["archive_to"] = cls.spelled(_below(stores.root_of(whole["path"]), archive), values)
        return {**values, **whole}

    @model_validator(mode="after")
    def _in_a_store(self) -> InStore:
        if not re.match(self.begins, self.path):
            raise ValueError(f"expected {self.expected}")
        return self


def _below(root: str, path: str) -> str:
    """A path that says nothing of where it begins, in a store."""
    return path if re.match(r"[/~]|file:|[^/]+://", path) else f"{root}/{path}"


class ObjectStore(Files):
    """Files in buckets."""

    starts_with_jars = True
    committer: ClassVar[Committer | None] = None
    speaks: ClassVar[re.Pattern[str]]
    """What tells its words from those of others."""
    denied: ClassVar[re.Pattern[str]]
    """What the store says to wrong credentials."""
    missing: ClassVar[re.Pattern[str]]
    """What it says of a bucket that is not there."""
    passing: ClassVar[re.Pattern[str]]
    """What is said when it cannot be reached, or is too busy."""

    def access(self, options: Any) -> Access | None:
        root = root_of(options.path)
        return Access(options.hadoop(), root, self.entered_at(root))

    def entered_at(self, root: str) -> str:
        """What its settings are for: all that is there is entered in one way."""
        return root.partition("://")[2]

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        try:
            super().check_target(spark, sink)
        except SetupError as failure:
            told = failure.__cause__
            raise (isinstance(told, OSError) and self.explain_failure(told, sink)) or failure from told

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        with self._in_bucket(spark, source):
            return super().discover(spark, source, request)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        with self._in_bucket(spark, source):
            return super().read(spark, source, request)

    @contextmanager
    def _in_bucket(self, spark: SparkSession, source: Any) -> Iterator[None]:
        """Where no file is found, the bucket is looked for: some stores do not tell the two apart."""
        try:
            yield
        except DataError as failure:
            root = root_of(source.path)
            if failure.code == "missing-file" and stores.of(spark, root).find(f"{root}/") is None:
                raise _no_bucket(root) from failure
            raise

    def is_passing(self, failure: Exception) -> bool:
        return self.passing.search(said(failure)) is not None

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        text, root = said(failure), root_of(options.path)
        bucket = root.partition("://")[2].partition("@")[0]
        if bucket not in text and not self.speaks.search(text):
            return None
        if self.missing.search(text):
            return _no_bucket(root)
        if self.denied.search(text):
            return SetupError(
                "access-denied", f"{root} refuses these credentials", hint="check them, and what they may do"
            )
        if self.passing.search(text):
            where = getattr(options, "endpoint", None) or "it"
            return SetupError(
                "store-unreachable",
                f"cannot reach {root}",
                hint=f"check that {where} runs and can be reached",
            )
        return None

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        self._deliver(frame, sink, batch, self.committer)
        return ()


def _no_bucket(root: str) -> DataError:
    hint = "make it first, or check its name and `endpoint`"
    return DataError("missing-bucket", f"there is no {root}", hint=hint)
