"""A stream's folder: what stands where, and what was said when it was made."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, unquote

from penstock.errors import DataError, InputError, SetupError
from penstock.streams.base import Retention

_ABOUT = "stream.json"
_MOST_SHARDS = 10_000


@dataclass(frozen=True)
class StreamFolder:
    """A stream that is there.

    news/
      stream.json                     its number, shards, retention
      writer.lock                     held by the process that writes
      shards/0/00000000000000000000.log, .index
      groups/readers/                 positions, locks of shards, and of members
    """

    name: str
    path: Path
    number: int
    shards: int
    retention: Retention

    @classmethod
    def open(cls, cluster: Path, name: str) -> StreamFolder:
        path = cluster / checked(name)
        try:
            told = json.loads((path / _ABOUT).read_text(encoding="utf-8"))
            kept = told["retention"]
            age = None if kept["age"] is None else timedelta(seconds=kept["age"])
            return cls(name, path, told["number"], told["shards"], Retention(age, kept["size"]))
        except (FileNotFoundError, NotADirectoryError):
            raise missing(cluster, name) from None
        except OSError as failure:
            raise unreachable(path, failure) from None
        except (ValueError, KeyError, TypeError):
            raise DataError("damaged-stream", f"{path / _ABOUT} does not describe a stream") from None

    @classmethod
    def create(cls, cluster: Path, name: str, shards: int, retention: Retention) -> StreamFolder:
        """Makes a stream, which appears whole."""
        path = cluster / checked(name)
        if not 1 <= shards <= _MOST_SHARDS:
            raise InputError("bad-shards", f"a stream has 1 to {_MOST_SHARDS} shards, not {shards}")
        made = cluster / f".{path.name}.{secrets.token_hex(4)}"
        age = None if retention.age is None else retention.age.total_seconds()
        about = {
            "number": secrets.randbits(63),
            "shards": shards,
            "retention": {"age": age, "size": retention.size},
        }
        fresh = [folder for folder in (cluster, *cluster.parents) if not folder.exists()]
        try:
            cluster.mkdir(parents=True, exist_ok=True)
            for folder in fresh:
                sync(folder.parent)
            for shard in range(shards):
                (made / "shards" / str(shard)).mkdir(parents=True)
            (made / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
            sync(made / _ABOUT)  # else the folder may outlive a power cut, and this be empty
        except OSError as failure:
            raise unreachable(cluster, failure) from None
        try:
            made.rename(path)
        except OSError:
            shutil.rmtree(made)
            raise InputError(
                "exists", f"there is already a stream or a folder '{name}' in {cluster}"
            ) from None
        return cls.open(cluster, name)

    def shard(self, number: int) -> Path:
        return self.path / "shards" / str(number)

    def group(self, name: str) -> Path:
        return self.path / "groups" / quote(name, safe=" ")

    def groups(self) -> list[str]:
        folder = self.path / "groups"
        return sorted(unquote(entry) for entry in os.listdir(folder)) if folder.is_dir() else []

    def sync(self) -> None:
        """Makes it durable that the stream is there; what is in its segments is their writer's."""
        shards = self.path / "shards"
        for path in (*map(self.shard, range(self.shards)), shards, self.path / _ABOUT, self.path):
            sync(path)
        sync(self.path.parent)

    def remove(self) -> None:
        """Takes it away at once, and then its files."""
        gone = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        self.path.rename(gone)
        shutil.rmtree(gone)


def sync(path: Path) -> None:
    """Makes a file durable, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def missing(cluster: Path, name: str) -> InputError:
    return InputError(
        "missing-stream",
        f"there is no stream '{name}' in {cluster}",
        hint="a producer or `create` makes it",
    )


def unreachable(path: Path, failure: OSError) -> SetupError:
    return SetupError("no-folder", f"{path} cannot be used: {failure.strerror}")


def checked(name: str) -> str:
    """A name that can be that of a folder."""
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(name.encode()) > 200:
        raise InputError(
            "bad-name",
            f"'{name}' cannot be the name of a stream",
            hint="no slash, and no dot at the beginning",
        )
    return name


def is_stream(path: Path) -> bool:
    return (path / _ABOUT).is_file()


def streams_in(cluster: Path) -> list[str]:
    if not cluster.is_dir():
        return []
    return sorted(p.name for p in cluster.iterdir() if not p.name.startswith(".") and is_stream(p))
