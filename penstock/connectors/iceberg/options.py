"""What an Iceberg source and an Iceberg sink take."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, model_validator

from penstock.connectors.base import SourceOptions
from penstock.connectors.object_stores import told as secret
from penstock.connectors.places import Stored
from penstock.connectors.storage import absolute, join
from penstock.connectors.tables import TableSink
from penstock.schema import quoted

_NAME = r"(?:`(?:[^`]|``)+`|[\w-]+)"
_COLUMN = rf"{_NAME}(?:\.{_NAME})*"
_TERM = re.compile(rf"(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?({_COLUMN})\s*\)|({_COLUMN}))")
_NEXT = re.compile(r"\s*((?:`(?:[^`]|``)*`|\([^()]*\)|[^,`()]|.)*?)\s*(?:,|$)", re.DOTALL)
_TIMES = ("years", "months", "days", "hours")
_NUMBERED = ("bucket", "truncate")


class Place(Stored):
    """A table, and the catalog that knows it."""

    table: str = Field("", description="The table: database.table, or with the catalog before it.")
    catalog: str = Field(
        "", description="The catalog; one of `catalogs:` in penstock.yaml, if there are any."
    )
    catalog_type: Literal["hadoop", "jdbc", "rest", "hive", "glue"] | None = Field(
        None,
        description="What kind of catalog it is; rest for a `catalog_uri` of http, jdbc for one of jdbc.",
    )
    catalog_uri: str | None = Field(None, repr=False, description="Where the catalog is.")
    catalog_user: str | None = Field(None, description="Who asks it, where it is a database.")
    catalog_password: SecretStr | None = Field(None, description="The password of that one.")
    catalog_token: SecretStr | None = Field(None, description="What shows a REST catalog who asks.")
    catalog_properties: dict[str, SecretStr] = Field(
        default_factory=dict, description="What else the catalog takes: catalog_properties.name = 'value'."
    )
    warehouse: str | None = Field(None, description="Where the catalog keeps tables.")
    state: str = Field(".penstock", description="Where a catalog is kept when none is configured.")
    path: str = Field("", description="Where the tables' files stand; the `warehouse` unless set.")

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, values: Any) -> Any:
        catalog, table = values.get("catalog") or "", values.get("table") or ""
        if not catalog and table.count(".") >= 2:
            catalog, _, table = table.partition(".")
        elif table.startswith(f"{catalog}."):
            table = table.removeprefix(f"{catalog}.")
        state = values.get("state") or ".penstock"
        own = values.get("catalog_uri") is None and values.get("catalog_type") is None
        warehouse = values.get("warehouse") or (join(state, "iceberg") if own else None)
        # A REST catalog may know it by a name.
        is_rest = "rest" in (values.get("catalog_type"), _kind_of(values.get("catalog_uri")))
        place = absolute(warehouse) if warehouse and ("://" in warehouse or not is_rest) else warehouse
        return {**values, "catalog": catalog or "iceberg", "table": table if "." in table else
                f"default.{table}" if table else "", "warehouse": place,
                "path": values.get("path") or place or ""}  # fmt: skip

    @model_validator(mode="after")
    def _named(self) -> Place:
        if not self.table:
            raise ValueError("expected a table: iceberg://catalog.database.table, or `table`")
        if not re.fullmatch(r"\w+", self.catalog):
            raise ValueError("the name of a catalog has letters, digits and _ only")
        return self

    @property
    def own(self) -> str | None:
        """The file of the project's own catalog, where that is meant."""
        configured = self.catalog_type is not None or self.catalog_uri is not None
        return None if configured else join(absolute(self.state), "iceberg.db")

    def settings(self) -> dict[str, str]:
        """What Spark is to know of the catalog."""
        uri = f"jdbc:sqlite:{self.own}" if self.own is not None else self.catalog_uri
        kind = self.catalog_type or _kind_of(uri)
        told = {
            "type": kind,
            "uri": uri,
            "warehouse": self.warehouse,
            "jdbc.user": self.catalog_user,
            "jdbc.password": secret(self.catalog_password),
            "jdbc.schema-version": "V1" if kind == "jdbc" else None,
            "token": secret(self.catalog_token),
            # What others commit is seen at once.
            "cache-enabled": "false",
            **{key: secret(value) for key, value in self.catalog_properties.items()},
        }
        name = f"spark.sql.catalog.{self.catalog}"
        return {name: "org.apache.iceberg.spark.SparkCatalog"} | {
            f"{name}.{key}": value for key, value in told.items() if value is not None
        }


class Source(Place, SourceOptions):
    snapshot: int | None = Field(
        None,
        description="The id of the snapshot to read; the newest unless set.",
        validation_alias=AliasChoices("snapshot", "snapshot_id", "snapshot-id", "version"),
    )
    timestamp: str | None = Field(None, description="The time at which to read it, such as 2026-01-31.")
    branch: str | None = Field(None, description="The branch or tag to read.",
                               validation_alias=AliasChoices("branch", "tag"))  # fmt: skip
    watch: bool = Field(False, description="Whether to go on with rows that are added later.")
    start: str | None = Field(
        None, description="Where a new stream begins: earliest, latest, or a time such as 2026-01-31."
    )
    skip_changes: bool = Field(
        False, description="Whether a stream passes over snapshots that change or delete rows."
    )
    files_per_batch: int | None = Field(None, gt=0, description="How many new files a batch has at most.")

    @model_validator(mode="after")
    def _one_time(self) -> Source:
        given = [name for name in ("snapshot", "timestamp", "branch") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other")
        if self.watch and given:
            raise ValueError(f"{given[0]} is of one state of the table: use start")
        if not self.watch and (self.start or self.skip_changes or self.files_per_batch):
            raise ValueError("start, skip_changes and files_per_batch need watch = true")
        return self


class Sink(Place, TableSink):
    partition_by: tuple[str, ...] = Field(
        (),
        description="How a new table is partitioned: columns, or years, months, days, hours, bucket and"
        " truncate of them, such as days(ts), bucket(16, id).",
    )
    branch: str | None = Field(None, description="The branch to write to; it must be there.")
    write_mode: Literal["merge_on_read", "copy_on_write"] | None = Field(
        None,
        description="How a new table takes changes: beside its files, which are quick to write, or in new"
        " files, which are quick to read. copy_on_write unless set.",
        validation_alias=AliasChoices("write_mode", "merge_mode"),
    )

    @model_validator(mode="before")
    @classmethod
    def _terms(cls, values: Any) -> Any:
        given = values.get("partition_by")
        if not isinstance(given, str):
            return values
        return {**values, "partition_by": tuple(filter(None, _NEXT.findall(given)))}

    @model_validator(mode="after")
    def _known_terms(self) -> Sink:
        for term in self.partition_by:
            match = _TERM.fullmatch(term)
            how = _transform(match[1]) if match is not None and match[1] else ""
            if match is None or how is None:
                raise ValueError(f"cannot partition by '{term}': name a column, or one of"
                                 f" {', '.join((*_TIMES, *_NUMBERED))} of it; names of other letters than"
                                 " usual in `backticks`")  # fmt: skip
            if how and (how in _NUMBERED) != (match[2] is not None):
                few = f"{match[1]}(16, {match[3]})" if match[2] is None else f"{match[1]}({match[3]})"
                raise ValueError(f"cannot partition by '{term}': expected such as {few}")
        return self


def column_of(term: str) -> tuple[str, ...]:
    """The column of a part of PARTITIONED BY, and the fields in it that lead to what is meant."""
    match = _TERM.fullmatch(term)
    assert match is not None
    names = re.findall(_NAME, match[3] or match[4])
    return tuple(n[1:-1].replace("``", "`") if n.startswith("`") else n for n in names)


def term_of(term: str) -> str:
    """A part of PARTITIONED BY, its column quoted."""
    match = _TERM.fullmatch(term)
    assert match is not None
    column = ".".join(map(quoted, column_of(term)))
    if not match[1]:
        return column
    return f"{_transform(match[1])}({f'{match[2]}, ' if match[2] else ''}{column})"


def _transform(word: str) -> str | None:
    """The name that Spark knows a transform by; Iceberg itself says `day`."""
    word = word.lower()
    return word if word in (*_TIMES, *_NUMBERED) else f"{word}s" if f"{word}s" in _TIMES else None


def _kind_of(uri: str | None) -> str | None:
    """What kind of catalog an address is of."""
    if uri is None:
        return None
    return "rest" if uri.startswith("http") else "jdbc" if uri.startswith("jdbc:") else "hive"
