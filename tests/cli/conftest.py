"""Runs command lines in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli import main
from tests.cli.backends import EACH, Backend, backend_of
from tests.cli.command import Penstock, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def penstock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Penstock:
    """Runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_DEBUG", raising=False)
    monkeypatch.setattr("penstock.engine.session.prepare", lambda **_: None)

    def run(*args: str) -> Result:
        capsys.readouterr()
        code = main(args)
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def penstock_spark(penstock: Penstock, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    """The same on the tests' own Spark session, which a command must not end."""
    from penstock import api

    monkeypatch.setattr(api, "Session", partial(api.Session, spark=spark))
    return penstock


@pytest.fixture(params=EACH)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Each backend that has streams to look after."""
    backend = backend_of(request.param, tmp_path, request)
    yield backend
    backend.close()


@pytest.fixture
def streams(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Streams in the folder `streams`, for what is the same everywhere."""
    backend = backend_of("file", tmp_path, request)
    yield backend
    backend.close()
