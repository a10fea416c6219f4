"""Five minutes of a steady stream; `make soak` runs it for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.delivery.soaking import soak

pytestmark = [pytest.mark.spark, pytest.mark.server]


def test_memory_stays_and_no_batch_fails(tmp_path: Path) -> None:
    done = soak(tmp_path, minutes=5, rate=20_000)
    print(done)
    assert done.delivered == done.produced // 2
    assert done.produced > 3_000_000, "the producer could not keep the pace"
    assert done.growth < 0.05, f"from {done.early:.0f} to {done.late:.0f} MB"
