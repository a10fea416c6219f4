"""Options that sources and sinks of messages have in common."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from penstock.connectors.base import SinkOptions, SourceOptions

KeyFormat = Literal["string", "json", "binary", "int", "long"]


def known_key_format(value: Any) -> Any:
    names = {"text": "string", "raw": "binary", "bytes": "binary", "integer": "int", "bigint": "long"}
    return names.get(value.lower(), value.lower()) if isinstance(value, str) else value


class MessageSource(SourceOptions):
    start: str | int | dict[str, Any] | None = Field(
        None,
        description="Where a new pipeline begins: earliest, latest, a time such as '2024-01-31T12:00:00Z', or"
        ' offsets as JSON: {"0": 42} or {"name": {"0": 42}}.',
        validation_alias=AliasChoices(
            "start", "scan.startup.mode", "startingOffsets", "starting_offsets", "auto.offset.reset",
            "auto_offset_reset",
        ),
    )  # fmt: skip
    start_timestamp: int | None = Field(
        None,
        description="Milliseconds since 1970 where `start = 'timestamp'` begins.",
        validation_alias=AliasChoices(
            "start_timestamp", "scan.startup.timestamp.millis", "scan.startup.timestamp-millis",
            "startingTimestamp",
        ),
    )  # fmt: skip
    bounded: bool = Field(
        False, description="Whether to end when all is read that is there; the next run goes on from there."
    )
    format: str = Field(
        "json",
        description="How rows stand in the messages.",
        validation_alias=AliasChoices("format", "value.format", "value_format"),
    )
    key: str | None = Field(
        None, description="The column that is the key, too: kept for whoever reads it, without effect."
    )
    key_format: KeyFormat = Field(
        "string",
        description="How `_key` stands in the messages: json is kept as text; int and long are big-endian.",
        validation_alias=AliasChoices("key_format", "key.format"),
    )
    max_rows_per_batch: int | None = Field(
        None,
        gt=0,
        description="The most messages of a batch.",
        validation_alias=AliasChoices("max_rows_per_batch", "maxOffsetsPerTrigger"),
    )

    @field_validator("key_format", mode="before")
    @classmethod
    def _key_format(cls, value: Any) -> Any:
        return known_key_format(value)


class MessageSink(SinkOptions):
    format: str = Field(
        "json",
        description="How rows stand in the messages; a single column `value` is a message as it is.",
        validation_alias=AliasChoices("format", "value.format", "value_format"),
    )
    key: tuple[str, ...] = Field(
        (),
        description="The column whose value is the key; several, separated by commas, are a JSON object.",
        validation_alias=AliasChoices("key", "key.fields", "key.field", "primary_key"),
    )
    key_format: KeyFormat = Field(
        "string",
        description="How keys are written: json is an object of the key's columns; int and long are"
        " big-endian.",
        validation_alias=AliasChoices("key_format", "key.format"),
    )
    headers: dict[str, str] = Field({}, description="Headers of every message, such as headers.team.")
    preserve_timestamps: bool = Field(
        False, description="Whether messages keep the time that rows have in `_timestamp`."
    )
    timestamp_column: str | None = Field(
        None, description="The column whose time is that of the message; `_timestamp` where there is one."
    )

    @field_validator("key", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        parts = value if isinstance(value, list | tuple) else re.split(r"[,;]", str(value))
        return tuple(str(part).strip() for part in parts if str(part).strip())

    @field_validator("headers", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}

    @field_validator("key_format", mode="before")
    @classmethod
    def _key_format(cls, value: Any) -> Any:
        return known_key_format(value)

    @model_validator(mode="after")
    def _added(self) -> MessageSink:
        if self.mode == "overwrite":
            raise ValueError("it is only appended to")
        return self
