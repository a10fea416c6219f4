"""Looks at the streams that a URI names, again and again; a system that is away is told, and tried anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from threading import Event, Thread

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.base import Admin, Streamer
from penstock.streams.registry import connect
from penstock.streams.watching import Latest, Look, Snapshot, produced

_SHORTEST = 0.05


def now() -> datetime:
    return datetime.now(timezone.utc)


class Looker:
    """One cluster. What is wrong with the URI is raised here; what fails later, the snapshot tells."""

    def __init__(self, uri: str, clock: Callable[[], datetime] = now) -> None:
        self.uri = uri
        self._clock = clock
        self._streamer: Streamer | None = connect(uri)
        self._admin: Admin | None = None
        self._latest: dict[str, tuple[int, Latest | None]] = {}
        self.cluster = str(self._streamer.uri)
        if not self._streamer.capabilities.admin:
            self._streamer.admin()  # which says so
            raise InputError("no-admin", f"{self._streamer.schemes[0]}:// has no cluster to look after")
        self._named = self._streamer.located()

    def look(self) -> Snapshot:
        try:
            return Snapshot(self.cluster, self._looks(self._open()))
        except PenstockError as failure:
            self.close()
            return Snapshot(self.cluster, failure=failure)
        except Exception as failure:  # noqa: BLE001 (one system must not keep the others from being seen)
            self.close()
            said = f"{type(failure).__name__}: {failure}"
            return Snapshot(self.cluster, failure=RunError("unexpected", f"cannot look: {said}"))

    def close(self) -> None:
        """Leaves the system; the next look comes to it again."""
        admin, streamer = self._admin, self._streamer
        self._admin = self._streamer = None
        for held in (admin, streamer):
            if held is not None:
                with suppress(PenstockError, OSError):
                    held.close()

    def _open(self) -> Admin:
        if self._streamer is None:
            self._streamer = connect(self.uri)
        if self._admin is None:
            self._admin = self._streamer.admin()
        return self._admin

    def _looks(self, admin: Admin) -> tuple[Look, ...]:
        names = self._named or tuple(admin.streams())
        with admin.together():
            looks = tuple(look for name in names if (look := self._one(admin, name)) is not None)
        self._latest = {name: known for name, known in self._latest.items() if name in names}
        return looks

    def _one(self, admin: Admin, name: str) -> Look | None:
        """None for a stream that was listed, and is gone."""
        at = self._clock()
        try:
            told = admin.describe(name)
            return Look(name, at, told, self._newest(admin, name, produced(told)))
        except InputError as failure:
            return Look(name, at, failure=failure) if self._named else None
        except FileNotFoundError:  # deleted while it was looked at
            return None

    def _newest(self, admin: Admin, name: str, count: int) -> Latest | None:
        """Asked for only when there is another one: some systems take long to answer."""
        known = self._latest.get(name)
        if known is None or known[0] != count:
            message = admin.latest(name) if count else None
            known = self._latest[name] = (count, None if message is None else Latest.of(message))
        return known[1]


class Looking:
    """Looks in threads, one for each cluster, so that one which is away keeps nobody waiting."""

    def __init__(self, lookers: list[Looker], interval: float) -> None:
        self._lookers, self._interval = lookers, interval
        self._over = Event()
        self._threads: list[Thread] = []

    def start(self, tell: Callable[[Snapshot], object]) -> None:
        for looker in self._lookers:
            thread = Thread(target=self._run, args=(looker, tell), name="penstock-look", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Returns at once; a thread that waits for an answer ends when it comes, or with the process."""
        self._over.set()

    def ended(self, timeout: float) -> bool:
        """Waits for the threads, so long at most."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, looker: Looker, tell: Callable[[Snapshot], object]) -> None:
        try:
            while not self._over.is_set():
                begun = now()
                tell(looker.look())
                took = (now() - begun).total_seconds()
                self._over.wait(max(_SHORTEST, self._interval - took))
        finally:
            looker.close()
