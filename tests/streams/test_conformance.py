"""The conformance suite, run on every backend of streams; and tried itself, on broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.streams import Streamer
from penstock.uri import Uri

from . import conformance as suite
from . import conformance_groups as groups
from . import conformance_transactions as transactions
from .broken import (
    BrokenSubject,
    CommitsTooEarly,
    CutsKeys,
    DoublesMessages,
    DropsHeaders,
    DropsMessages,
    ForgetsCommits,
    ForgetsPositions,
    KeepsNoRetention,
    KeepsNoTimes,
    KnowsNoIds,
    MixesMessages,
    NeverMoves,
    SharesNothing,
    StoresAtOnce,
)
from .conformance import Check, checks_for, gives_messages_in_order, rewinds, seeks_a_time
from .subject import Subject, names_of
from .subjects_kafka import KafkaSubject
from .subjects_nats import NatsSubject
from .subjects_passing import StdioSubject, WebSocketSubject
from .subjects_pulsar import PulsarSubject
from .subjects_redis import RedisSubject


class FileSubject(Subject):
    fixture = "tmp_path"
    required = frozenset(
        {"shards", "keys", "headers", "timestamps", "replay", "seek_time", "groups", "shared_positions",
         "deduplicates", "admin", "retention"}
    )  # fmt: skip

    def streamer(self) -> Streamer:
        from penstock.streams.file.streamer import FileStreamer

        return FileStreamer(Uri.parse(f"file://{self.place}"))


SUBJECTS: dict[str, type[Subject]] = {
    "file": FileSubject,
    "kafka": KafkaSubject,
    "nats": NatsSubject,
    "pulsar": PulsarSubject,
    "redis": RedisSubject,
    "stdio": StdioSubject,
    "websocket": WebSocketSubject,
}
MARKS = {name: [pytest.mark.server] if kind.fixture != "tmp_path" else [] for name, kind in SUBJECTS.items()}
PAIRS = [
    pytest.param(name, check, id=f"{name}-{check.__name__}", marks=MARKS[name])
    for name, kind in SUBJECTS.items()
    for check in checks_for(kind.required)
]


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    kind = SUBJECTS[request.param]
    subject = kind(request.getfixturevalue(kind.fixture))
    yield subject
    subject.close()


@pytest.mark.parametrize(
    "subject", [pytest.param(name, marks=MARKS[name]) for name in SUBJECTS], indirect=True
)
def test_declares_what_is_required(subject: Subject) -> None:
    with subject.streamer() as streamer:
        assert names_of(streamer.capabilities) == subject.required


@pytest.mark.parametrize(("subject", "check"), PAIRS, indirect=["subject"])
def test_conforms(subject: Subject, check: Check) -> None:
    check(subject)


@pytest.mark.parametrize(
    ("kind", "check", "complaint"),
    [
        (DropsMessages, gives_messages_in_order, "1 of 100 messages are missing"),
        (DoublesMessages, gives_messages_in_order, "messages too many"),
        (MixesMessages, gives_messages_in_order, "in another order"),
        (NeverMoves, rewinds, "rewound: 3 of 3 messages are missing"),
        (NeverMoves, seeks_a_time, "sought a time between: 10 of 10 messages are missing"),
        (CutsKeys, suite.keeps_keys, "other keys"),
        (DropsHeaders, suite.keeps_headers, "other headers"),
        (KeepsNoTimes, suite.keeps_timestamps, "another time"),
        (KeepsNoTimes, suite.takes_times_without_a_zone, "sent at other times"),
        (KnowsNoIds, suite.stores_an_id_once, "stored .'message 0', 'message 1', 'message 1'"),
        (KeepsNoRetention, suite.keeps_the_retention, "asked for Retention"),
        (ForgetsCommits, groups.goes_on_after_closing, "read after closing"),
        (ForgetsCommits, groups.tells_lag, "the lag is"),
        (CommitsTooEarly, groups.goes_on_after_a_crash, "after a crash"),
        (StoresAtOnce, transactions.commits_transactions, "of transactions: 1 messages too many"),
        (StoresAtOnce, transactions.shows_nothing_before_the_commit, "before the commit"),
        (StoresAtOnce, transactions.rolls_back_positions_with_messages, "was rolled back: 4 messages too"),
        (ForgetsPositions, transactions.shuts_out_who_was_replaced, "who was replaced is told None"),
        (ForgetsPositions, transactions.commits_positions_with_messages, "read after two transactions"),
        (SharesNothing, groups.shares_shards, "read by two that have settled: .* messages too many"),
    ],
)
def test_fails_a_broken_backend(
    kind: type[BrokenSubject], check: Check, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "patience", 1.0)
    with pytest.raises(AssertionError, match=complaint):
        check(kind(tmp_path))
