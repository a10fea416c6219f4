"""What a stream in a folder takes, as a source and as a sink."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from penstock.connectors.messaging.options import MessageSink, MessageSource
from penstock.connectors.messaging.start import Start, parse_start
from penstock.errors import DataError, InputError, did_you_mean
from penstock.options import Options
from penstock.streams.file.folder import StreamFolder, checked, streams_in


class Stream(Options):
    stream: str = Field(description="The name of the stream.")
    folder: str = Field(
        ".penstock/streams",
        description="The folder that it is in, which all workers must see; `streams` in the project's state"
        " unless set.",
    )

    @field_validator("stream")
    @classmethod
    def _name(cls, value: str) -> str:
        try:
            return checked(value)
        except InputError as failure:
            raise ValueError(failure.hint) from None

    @property
    def cluster(self) -> Path:
        return Path(os.path.abspath(self.folder))

    def opened(self) -> StreamFolder:
        """The stream, which must be there."""
        try:
            return StreamFolder.open(self.cluster, self.stream)
        except InputError as failure:
            if failure.code != "missing-stream":
                raise
            known = streams_in(self.cluster)
            hint = (
                did_you_mean(self.stream, known) if known else "INSERT INTO and `penstock flux` make streams"
            )
            message = f"there is no stream '{self.stream}' in {self.cluster}"
            raise DataError("missing-stream", message, hint=hint) from None


class Source(MessageSource, Stream):
    @model_validator(mode="after")
    def _valid(self) -> Source:
        _ = self.begin
        return self

    @property
    def begin(self) -> Start | None:
        """Where a new pipeline begins, understood; None when nothing says so."""
        return parse_start(self.start, self.start_timestamp, (self.stream,))


class Sink(MessageSink, Stream):
    shards: int = Field(
        1, ge=1, le=10_000, description="How many shards the stream gets when it is made; a key stays in one."
    )
