"""What a Hudi source and a Hudi sink take."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from penstock.connectors.base import SourceOptions
from penstock.connectors.hudi.access import STORES
from penstock.connectors.hudi.instants import parse_moment
from penstock.connectors.merging import Merging
from penstock.connectors.places import Place, scheme_of
from penstock.options import Names

_ALSO = "hoodie.datasource.write."


class Folder(Place):
    """Where a table stands."""

    @model_validator(mode="after")
    def _readable(self) -> Folder:
        scheme = scheme_of(self.path)
        if scheme and scheme not in STORES:
            known = "a folder, S3, Google Cloud Storage and Azure"
            raise ValueError(f"hudi-rs, which reads the tables, does not know {scheme}://, but {known}")
        if self.role_arn is not None:
            raise ValueError(
                "hudi-rs, which reads the tables, takes on no role; give it the role's credentials"
            )
        return self


class Source(Folder, SourceOptions):
    as_of: str | int | None = Field(
        None,
        description="Reads the table as it was then: a time such as '2024-01-31T12:00:00Z', or an instant of"
        " its timeline such as '20240131120000000'.",
        validation_alias=AliasChoices("as_of", "as.of.instant"),
    )
    since: str | int | None = Field(
        None,
        description="Reads the rows that were inserted or updated after that time or instant.",
        validation_alias=AliasChoices("since", "hoodie.datasource.read.begin.instanttime"),
    )

    @field_validator("as_of", "since")
    @classmethod
    def _moment(cls, value: str | int | None) -> str | int | None:
        if value is not None:
            parse_moment(value)
        return value


class Sink(Folder, Merging):
    table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"] = Field(
        "COPY_ON_WRITE",
        description="COPY_ON_WRITE; a MERGE_ON_READ table would lose updates, and is refused.",
        validation_alias=AliasChoices("table_type", f"{_ALSO}table.type"),
    )
    merge_on: Names = Field(
        (),
        description="The record key: columns that tell which row of the table a row changes; without them,"
        " rows are added, and Hudi's keys are made of the batch and a number.",
        validation_alias=AliasChoices("merge_on", "record_key", f"{_ALSO}recordkey.field"),
    )
    order_by: Names = Field(
        (),
        description="Columns that tell which of several changes to a key in a batch is the later one; by"
        " arrival unless set. Those whose names begin with _ are not stored.",
        validation_alias=AliasChoices("order_by", "ordering_field", f"{_ALSO}precombine.field"),
    )
    partition_by: Names = Field(
        (),
        description="Columns that become folders, key=value; those of the table unless set.",
        validation_alias=AliasChoices("partition_by", f"{_ALSO}partitionpath.field"),
    )

    @field_validator("table_type", mode="before")
    @classmethod
    def _copies(cls, value: Any) -> Any:
        name = str(value).upper()
        if name == "MERGE_ON_READ":
            raise ValueError("updates written into a MERGE_ON_READ table would be lost; use COPY_ON_WRITE")
        return name
