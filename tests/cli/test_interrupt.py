from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from penstock.cli.interrupt import Interruptible
from penstock.errors import RunError
from tests.cli.command import Penstock
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDLE = SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=lambda: None))


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def during(spark: object, *work: Callable[[], object]) -> None:
    session = SimpleNamespace(opened=spark, running=[])
    with Interruptible(session):  # type: ignore[arg-type]
        for step in work:
            step()


def fail() -> None:
    raise RunError("spark", "job cancelled")


def test_jobs_are_cancelled_and_their_failure_is_an_interrupt() -> None:
    cancelled = Event()
    spark = SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=cancelled.set))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        during(spark, press, lambda: cancelled.wait(10), fail)
    assert cancelled.is_set()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_failure_without_it_stays_what_it_is() -> None:
    with pytest.raises(RunError):
        during(IDLE, fail)


def test_work_that_is_over_in_spite_of_it_stays_done() -> None:
    during(IDLE, press)


def test_a_second_one_ends_it_at_once() -> None:
    after = Event()
    with pytest.raises(KeyboardInterrupt):
        during(IDLE, press, press, after.set)
    assert not after.is_set()


def test_without_spark_it_ends_at_once() -> None:
    after = Event()
    with pytest.raises(KeyboardInterrupt):
        during(None, press, after.set)
    assert not after.is_set()


@pytest.mark.spark
def test_a_running_statement_is_interrupted(penstock_spark: Penstock, spark: SparkSession) -> None:
    def wait_and_press() -> None:
        tracker = spark.sparkContext.statusTracker()
        until(tracker.getActiveJobsIds, "a job")
        press()

    Thread(target=wait_and_press, daemon=True).start()
    forever = "SELECT sum(sqrt(a.id * b.id)) AS s FROM range(0, 100000, 1, 4) a CROSS JOIN range(1000000) b"
    result = penstock_spark("run", "-e", forever)
    assert result.code == 130
    assert result.err == "interrupted\n"
    assert spark.range(3).count() == 3
