"""Apache Avro object container files, by Spark's own reader and writer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from penstock.formats.columnar import Columnar
from penstock.options import Options


class AvroWriteOptions(Options):
    compression: Literal["snappy", "zstandard", "deflate", "bzip2", "xz", "uncompressed"] = Field(
        "snappy", description="How blocks are compressed."
    )


class Avro(Columnar):
    """Apache Avro; the header of a file tells its columns."""

    name = "avro"
    extensions = ("avro",)
    jars = ("org.apache.spark:spark-avro_2.13:4.1.1",)
    WriteOptions = AvroWriteOptions

    def _discovery(self) -> dict[str, Any]:
        return {}

    @property
    def suffix(self) -> str:
        return ".avro"
