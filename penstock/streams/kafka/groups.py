"""Who is in groups, and what groups have committed.

It is asked in a process of its own: librdkafka ends the one in which the broker of a group was asked and did
not answer in time (librdkafka 4605).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, NamedTuple, cast

from penstock.streams.kafka import asked_aside
from penstock.streams.kafka.connection import Connection
from penstock.streams.kafka.errors import no_answer
from penstock.streams.kafka.offsets import Offsets, Place


class Group(NamedTuple):
    members: list[tuple[str, list[Place]]]
    """The id of each, and the shards that it has."""
    committed: Offsets


class Groups:
    def __init__(self, options: Connection, settings: Mapping[str, Any]) -> None:
        self._options = options
        self._settings = dict(settings)
        self._lock = threading.Lock()
        self._aside: _Aside | None = None

    def told(self, groups: list[str]) -> dict[str, Group]:
        """What the brokers know of them; nothing of those that are gone, or of another kind."""
        if not groups:
            return {}
        with self._lock:
            # The process that was asked last may have ended since.
            answer = self._answer(groups) or self._answer(groups)
        if answer is None:
            raise no_answer(self._options, "nothing is told of groups")
        return {
            name: Group(
                [(member, [(topic, shard) for topic, shard in places]) for member, places in members],
                {(topic, shard): offset for topic, shard, offset in committed},
            )
            for name, (members, committed) in answer.items()
        }

    def close(self) -> None:
        self._aside = None

    def _answer(self, groups: list[str]) -> dict[str, Any] | None:
        """None when the process has ended."""
        try:
            self._aside = self._aside or _Aside(self._settings)
            return self._aside.answer(groups)
        except (OSError, ValueError):
            self._aside = None
            return None


class _Aside:
    """The process; it ends with this object."""

    def __init__(self, settings: dict[str, Any]) -> None:
        process = subprocess.Popen(
            # Not as a module, which would load the packages that it is in.
            [sys.executable, asked_aside.__file__],
            # Whose folder is no place to import from, where Python can be told so: from 3.11 on.
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._question, self._reply = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        weakref.finalize(self, _end, process, self._question, self._reply)
        # On a command line, others would see the secrets that these may have.
        self._say(settings)

    def answer(self, groups: list[str]) -> dict[str, Any]:
        self._say(groups)
        answer: dict[str, Any] = json.loads(self._reply.readline())
        return answer

    def _say(self, what: Any) -> None:
        self._question.write(f"{json.dumps(what)}\n")
        self._question.flush()


def _end(process: subprocess.Popen[str], *pipes: IO[str]) -> None:
    process.kill()
    process.wait()
    for pipe in pipes:
        with suppress(OSError):  # what was not read any more
            pipe.close()
