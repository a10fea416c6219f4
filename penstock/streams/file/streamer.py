"""`file://`: where a URI leads, and what it sets.

The last part of the path is a stream's name when it is the folder of a stream, or when nothing is there while
the folder above it is; it is the cluster when it is another folder, when neither is there, or when a slash
follows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

from pydantic import Field

from penstock.errors import InputError
from penstock.options import Options, Setting, Size, bind
from penstock.streams.base import (
    Admin,
    Capabilities,
    Consumer,
    Delivery,
    Producer,
    Reading,
    Retention,
    Streamer,
)
from penstock.streams.codecs import codec
from penstock.streams.file.admin import FileAdmin
from penstock.streams.file.consumer import FileConsumer
from penstock.streams.file.folder import StreamFolder, is_stream
from penstock.streams.file.producer import FileProducer
from penstock.streams.file.writer import Settings, Writer
from penstock.uri import Uri


class FileOptions(Options):
    """What stands after the `?`."""

    fsync: Literal["always", "never"] = Field(
        "never", description="Whether a message is on the disk before it counts as stored."
    )
    dedup_window: int = Field(
        100_000, ge=0, description="Messages of a shard among which an id is not stored again."
    )
    buffer: Size = Field(64 * 1024 * 1024, gt=0, le=1024**3, description="Bytes that may wait to be written.")
    segment: Size = Field(64 * 1024 * 1024, gt=0, description="Bytes after which a new segment begins.")


class FileStreamer(Streamer):
    schemes = ("file",)
    example = "file:///folder/name"
    capabilities = Capabilities(
        shards=True,
        keys=True,
        headers=True,
        timestamps=True,
        replay=True,
        seek_time=True,
        groups=True,
        shared_positions=True,
        deduplicates=True,
        admin=True,
        retention=True,
    )

    def __init__(self, uri: Uri) -> None:
        super().__init__(uri)
        place, _, query = uri.path.partition("?")
        if not place:
            raise InputError("bad-uri", f"'{uri}' names no folder", hint="file:///folder, or file://./folder")
        settings = [Setting(key, value) for key, value in parse_qsl(query, keep_blank_values=True)]
        options = bind(FileOptions, settings, "file:// streams")
        self._fsync = options.fsync == "always"
        self._settings = Settings(self._fsync, options.dedup_window, options.buffer, options.segment)
        path = Path(place)
        is_name = is_stream(path) or (not place.endswith("/") and not path.exists() and path.parent.is_dir())
        self._cluster = path.parent if is_name else path
        self._located = (path.name,) if is_name else ()

    def located(self) -> tuple[str, ...]:
        return self._located

    def places(self, stream: str) -> frozenset[tuple[object, ...]]:
        return frozenset({("file", str((self._cluster / stream).resolve()))})

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        """Makes the stream, with one shard, when there is none."""
        encode = codec(format)
        try:
            folder = StreamFolder.open(self._cluster, stream)
        except InputError as failure:
            if failure.code != "missing-stream":
                raise
            folder = self._made(stream)
        return FileProducer(Writer.of(folder, self._settings), encode, delivery)

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        folders = [StreamFolder.open(self._cluster, name) for name in streams]
        return FileConsumer(folders, reading, fsync=self._fsync)

    def admin(self) -> Admin:
        return FileAdmin(self._cluster, fsync=self._fsync)

    def _made(self, name: str) -> StreamFolder:
        try:
            return StreamFolder.create(self._cluster, name, 1, Retention())
        except InputError as failure:
            if failure.code != "exists":
                raise
            return StreamFolder.open(self._cluster, name)  # somebody else made it just now
