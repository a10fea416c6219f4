from __future__ import annotations

import os

import pytest

from penstock.engine import machine
from penstock.engine.machine import cores, heap, jvm_flags


@pytest.mark.parametrize(("master", "expected"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4)])
def test_cores_of_a_local_master(master: str, expected: int) -> None:
    assert cores(master) == expected


def test_all_cores() -> None:
    assert 1 <= cores("local[*]") <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("gigabytes", "expected"), [(1, "1024m"), (4, "1024m"), (8, "2048m"), (24, "6144m"), (256, "8192m")]
)
def test_heap_is_a_bounded_quarter(monkeypatch: pytest.MonkeyPatch, gigabytes: int, expected: str) -> None:
    monkeypatch.setattr(machine, "memory", lambda: gigabytes << 30)
    assert heap() == expected


def test_memory_that_was_asked_for_wins() -> None:
    assert "-Xmx3g" in jvm_flags("local[2]", "3g")


def test_one_collector_thread_on_two_cores_only() -> None:
    assert "-XX:+UseSerialGC" in jvm_flags("local[2]")
    assert "-XX:+UseSerialGC" not in jvm_flags("local[8]")


def test_tables_have_a_collector_of_all_cores() -> None:
    flags = jvm_flags("local[2]", tables=True)
    assert "-XX:+UseParallelGC" in flags
    assert "-XX:+UseSerialGC" not in flags


def test_short_work_is_compiled_quickly() -> None:
    flags = jvm_flags("local[2]", short=True)
    assert "-XX:TieredStopAtLevel=1" in flags
    assert "-XX:ReservedCodeCacheSize=240m" in flags  # as much as Java takes with both compilers
    assert "-XX:TieredStopAtLevel=1" not in jvm_flags("local[2]")
