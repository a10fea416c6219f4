"""Signals that end a command."""

from __future__ import annotations

import os
import select
import signal

import pytest

from penstock.cli.stopping import Stopped, Stopping


def test_the_first_signal_asks_and_the_second_one_ends() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stopping() as stopping:
        assert not stopping.asked
        assert not select.select([stopping.fd], [], [], 0)[0]
        signal.raise_signal(signal.SIGTERM)
        assert stopping.asked
        assert select.select([stopping.fd], [], [], 0)[0]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_wait_that_may_never_end_is_broken() -> None:
    with Stopping() as stopping:
        with pytest.raises(Stopped), stopping.breaking():
            os.kill(os.getpid(), signal.SIGHUP)
        assert stopping.asked
        with pytest.raises(Stopped), stopping.breaking():
            pytest.fail("it is not begun again")


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stopping() as stopping:
            signal.raise_signal(signal.SIGHUP)
            assert not stopping.asked
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
