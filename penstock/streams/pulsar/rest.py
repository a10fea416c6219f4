"""The admin REST of a Pulsar cluster, by urllib: which topics there are, and where they begin and end."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from penstock.errors import PenstockError, RunError, SetupError
from penstock.streams.pulsar.connection import SECURE_WEB, WEB, Cluster, denied, missing, tls
from penstock.streams.pulsar.messages import Id
from penstock.streams.pulsar.topics import Topic

ANSWER = 20.0
PAUSE = 0.2
MESSAGE = re.compile(r"^Message: (.*)$", re.MULTILINE)
STORAGE = "ManagedLedgerException"
"""What brokers say when those who keep the messages do not answer, as while they are started again."""
PARTITIONED = "application/vnd.partitioned-topic-metadata+json"


class Refused(Exception):
    """The server said no."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.again = False
        """Whether the same was asked before, and failed with what may pass."""

    @property
    def passing(self) -> bool:
        """Whether it may say yes in a moment."""
        return self.status in (502, 503, 504) or (self.status == 500 and STORAGE in self.reason)


class Rest:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        host = cluster.hosts()[0][0]
        host = f"[{host}]" if ":" in host else host
        default = f"https://{host}:{SECURE_WEB}" if cluster.secure else f"http://{host}:{WEB}"
        self._url = (cluster.options.admin or default).rstrip("/")
        self._context: ssl.SSLContext | None = None

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: Any
    ) -> Any:
        """What the server answers; raises `Refused`, or our error when it is not there."""
        end, again = time.monotonic() + self._cluster.patience, False
        while True:
            try:
                return self._asked(method, path, body, kind, query)
            except Refused as failure:
                failure.again = again
                # What is deleted once more would be told to be missing.
                if not failure.passing or method == "DELETE" or time.monotonic() > end:
                    raise
            again = True
            time.sleep(PAUSE)

    def _asked(self, method: str, path: str, body: Any, kind: str, query: Mapping[str, Any]) -> Any:
        url = f"{self._url}/admin/v2/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind, "User-Agent": "penstock"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
        for name, value in self._login().items():
            # Not for whom the server may point us to.
            request.add_unredirected_header(name, value)
        try:
            patience = min(ANSWER, max(1.0, self._cluster.patience))
            with urllib.request.urlopen(request, timeout=patience, context=self._tls()) as answer:  # noqa: S310
                text = answer.read()
        except urllib.error.HTTPError as failure:
            with failure:
                raise self._refused(failure) from None
        except (OSError, http.client.HTTPException) as failure:
            raise self._away(failure) from None
        return json.loads(text) if text else None

    # Topics.

    def topic(self, topic: Topic) -> Topic:
        """The topic with its partitions; `missing-stream` when there is none."""
        try:
            told = self.call("GET", f"{topic.path}/partitions")
            if not told["partitions"]:
                self.call("GET", f"{topic.path}/properties")
        except Refused as failure:
            raise self.failed(failure, topic.stream) from None
        return Topic(topic.stream, topic.namespace, topic.name, int(told["partitions"]))

    def properties(self, topic: Topic) -> dict[str, str]:
        return dict(self._of(topic, "properties") or {})

    def give(self, topic: Topic, properties: Mapping[str, str]) -> None:
        try:
            self.call("PUT", f"{topic.path}/properties", properties)
        except Refused as failure:
            raise self.failed(failure, topic.stream) from None

    def stats(self, topic: Topic) -> dict[str, Any]:
        return dict(self._of(topic, "stats", getPreciseBacklog="true"))

    def first(self, topic: Topic) -> Id | None:
        """The first message of a shard; None when there is none."""
        return next((Id(ledger, 0, 0) for ledger, entries in self.ledgers(topic).items() if entries), None)

    def ledgers(self, topic: Topic) -> dict[int, int]:
        """How many entries are in each ledger of a shard, in their order."""
        told = self._of(topic, "internalStats")
        found = {int(ledger["ledgerId"]): int(ledger["entries"]) for ledger in told["ledgers"]}
        if found:
            found[list(found)[-1]] = int(told["currentLedgerEntries"])
        return found

    def last(self, topic: Topic) -> Id | None:
        """The last message of a shard; None when there never was one."""
        return _id(self._of(topic, "lastMessageId"))

    def at(self, topic: Topic, time: datetime) -> Id | None:
        """The first entry that was stored at a time, or later; None when there is none."""
        stamp = max(0, int(time.timestamp() * 1000))
        return _id(self._of(topic, f"messageid/{stamp}"))

    # Subscriptions.

    def subscribe(self, topic: Topic, group: str, after: Id | None, *, inclusive: bool) -> bool:
        """Makes a subscription of a shard at a place; False when there is one."""
        try:
            self.call("PUT", f"{topic.path}/subscription/{quote(group, safe='')}", _place(after, inclusive))
        except Refused as failure:
            if failure.status == 409:
                return False
            raise self.failed(failure, topic.stream) from None
        return True

    def move(self, topic: Topic, group: str, after: Id | None, *, inclusive: bool) -> None:
        """Moves a subscription of a shard, whose members are sent away, and come again."""
        path = f"{topic.path}/subscription/{quote(group, safe='')}/resetcursor"
        try:
            self.call("POST", path, _place(after, inclusive))
        except Refused as failure:
            raise self.failed(failure, topic.stream) from None

    def marked(self, topic: Topic, group: str) -> tuple[int, int]:
        """Ledger and entry up to which all is acknowledged."""
        told = self._of(topic, "internalStats")["cursors"].get(group)
        if told is None:
            raise missing(topic.stream)
        ledger, _, entry = told["markDeletePosition"].partition(":")
        return int(ledger), int(entry)

    def failed(self, failure: Refused, stream: str = "") -> PenstockError:
        if failure.status in (401, 403):
            return denied(self._cluster.uri)
        if failure.status == 404:
            return missing(stream)
        return RunError(
            "pulsar-failed", f"the admin REST at {self._url} failed ({failure.status}): {failure.reason}"
        )

    def _of(self, topic: Topic, what: str, **query: Any) -> Any:
        try:
            return self.call("GET", f"{topic.path}/{what}", **query)
        except Refused as failure:
            raise self.failed(failure, topic.stream) from None

    def _login(self) -> Mapping[str, str]:
        token, uri = self._cluster.options.token, self._cluster.uri
        if token is not None:
            return {"Authorization": f"Bearer {token.get_secret_value()}"}
        if uri.user:
            login = base64.b64encode(f"{uri.user}:{uri.password or ''}".encode()).decode()
            return {"Authorization": f"Basic {login}"}
        return {}

    def _tls(self) -> ssl.SSLContext | None:
        if self._url.startswith("https:") and self._context is None:
            self._context = ssl.create_default_context(cafile=self._cluster.trusted())
        return self._context

    def _refused(self, failure: urllib.error.HTTPError) -> Refused:
        text = failure.read().decode(errors="replace")
        try:
            reason = str(json.loads(text)["reason"])
        except (ValueError, KeyError, TypeError):
            reason = text[:200]
        told = MESSAGE.search(reason)  # where there is more, it is a trace of Java's
        return Refused(failure.code, told[1] if told else reason or str(failure.reason))

    def _away(self, failure: BaseException) -> SetupError:
        reason = getattr(failure, "reason", None) or failure
        if isinstance(reason, ssl.SSLError):
            return tls(self._cluster.uri, reason)
        return SetupError(
            "server-unreachable",
            f"the admin REST of Pulsar does not answer at {self._url}: {reason}",
            hint="?admin=http://host:8080 says where it is",
        )


def _id(told: Any) -> Id | None:
    if told is None or int(told["entryId"]) < 0 or int(told["ledgerId"]) < 0:
        return None
    return Id(int(told["ledgerId"]), int(told["entryId"]), max(0, int(told.get("batchIndex", 0))))


def _place(after: Id | None, inclusive: bool) -> dict[str, int]:
    """An entry; what is excluded is the last message of its entry, so the next one is meant."""
    ledger, entry, _ = after or Id(-1, -1, 0)
    step = 0 if inclusive or after is None else 1
    return {"ledgerId": ledger, "entryId": entry + step, "partitionIndex": -1}
