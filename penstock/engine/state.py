"""What a pipeline keeps between its runs: one folder, by its id.

statement.sql, plan.json   what runs
stream.json                sources and columns of a stream, as they were when it began
progress.json              how far a stream is, for who looks at it from outside
checkpoint/                Spark's: which records each batch has, and which batches are done
staged/                    a batch that must be the same when it runs again, until it is done
acknowledge/               what sources are told once a batch is done
dead_letters/              what could not be read or delivered
replays/                   dead letters on their way through the pipeline again, until all sinks have them
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


class State:
    """The folder of a pipeline."""

    def __init__(self, state: Path, id: str) -> None:
        self.id = id
        self.folder = (state / "pipelines" / id).absolute()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def dead_letters(self) -> Path:
        return self.folder / "dead_letters"

    def replay(self, number: int) -> Path:
        return self.folder / "replays" / str(number)

    def replays(self) -> list[int]:
        """Those that are not done."""
        return _numbers(self.folder / "replays")

    def next_replay(self) -> int:
        """A number that no replay has had."""
        file = self.folder / "replays" / "last"
        number = int(file.read_text(encoding="ascii")) + 1 if file.exists() else 0
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, str(number))
        return number

    def staged(self, batch: int) -> Path:
        return self.folder / "staged" / str(batch)

    def describe(self, statement: str, plan: dict[str, Any]) -> None:
        """Keeps what runs, for people."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / "statement.sql", statement + ";\n")
        write_whole(self.folder / "plan.json", json.dumps(plan, indent=2))

    def kept(self) -> dict[str, Any] | None:
        """What a stream was when it began; None for one that has not."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "stream.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    def keep(self, stream: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / "stream.json", json.dumps(stream, indent=2))

    def tell(self, progress: dict[str, Any]) -> None:
        """Leaves word of how far a stream is; nothing hangs on it, so it need not outlive the machine."""
        aside = self.folder / ".progress.json"
        aside.write_text(json.dumps(progress), encoding="utf-8")
        aside.replace(self.folder / "progress.json")

    def told(self) -> dict[str, Any]:
        """What a stream has last left word of."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "progress.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def tidy(self) -> None:
        """Removes what Spark was writing into its logs when it was killed: it would not begin with it."""
        for log in ("offsets", "commits"):
            for left in (self.checkpoint / log).glob(".*.tmp*"):
                left.unlink()

    def planned(self) -> int | None:
        """The last batch whose records are known; it runs, or runs again."""
        return _last(self.checkpoint / "offsets")

    def committed(self) -> int | None:
        """The last batch that is done."""
        return _last(self.checkpoint / "commits")

    def batches(self) -> int:
        """How many batches are done."""
        done = self.committed()
        return 0 if done is None else done + 1

    def time_of(self, batch: int) -> datetime:
        """When a batch was planned: the same time when it runs again."""
        lines = (self.checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        return datetime.fromtimestamp(json.loads(lines[1])["batchTimestampMs"] / 1000, timezone.utc)

    def remember(self, batch: int, what: list[Any]) -> None:
        """Keeps what sources, in their order, are to be told when a batch is done."""
        folder = self.folder / "acknowledge"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{batch}.json", json.dumps(what))

    def remembered(self) -> Iterator[tuple[int, list[Any]]]:
        """The batches that are done, but of which something is still kept; and what to tell the sources."""
        done = self.committed()
        told = self.folder / "acknowledge"
        for batch in sorted({*_numbers(told), *_numbers(self.folder / "staged")}):
            if done is not None and batch <= done:
                file = told / f"{batch}.json"
                yield batch, json.loads(file.read_text(encoding="utf-8")) if file.exists() else []

    def forget(self, batch: int) -> None:
        """Removes what was only kept until a batch was done."""
        (self.folder / "acknowledge" / f"{batch}.json").unlink(missing_ok=True)
        shutil.rmtree(self.staged(batch), ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all, also after the machine stops."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _last(folder: Path) -> int | None:
    return max(_numbers(folder), default=None)


def _numbers(folder: Path) -> list[int]:
    """The batches that have a file in a log of Spark's, or of ours."""
    names = (name.removesuffix(".json") for name in (os.listdir(folder) if folder.is_dir() else ()))
    return sorted(int(name) for name in names if name.isdigit())
