"""Whatever is written, a check gives plans or one of our errors with its place, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from penstock.api import Session
from penstock.config import find_project
from penstock.errors import PenstockError
from penstock.plan import explain
from tests.fuzzing import EXAMPLES, mutations
from tests.sql.corpus import CASES, EVERYTHING


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("project")
    (folder / "penstock.yaml").write_text("streams: file:///nowhere\n")
    return Session(find_project(folder / "penstock.yaml"))


def failure(session: Session, text: str) -> PenstockError | None:
    try:
        for plan in session.check(text).plans:
            assert explain.render(plan)
            assert explain.graph(plan)
            json.dumps(explain.to_dict(plan))
    except PenstockError as error:
        return error
    return None


def check(session: Session, text: str) -> None:
    error = failure(session, text)
    if error is not None:
        assert error.at is not None, f"{error.code}: {error}"
        assert error.at.line >= 1
        assert error.render().encode()
    assert [path.name for path in Path(session.state).parent.iterdir()] == ["penstock.yaml"]


@settings(max_examples=EXAMPLES, deadline=None)
@given(text=mutations([*EVERYTHING, *CASES]))
def test_nearly_right_texts(session: Session, text: str) -> None:
    check(session, text)


@pytest.mark.parametrize(
    "text",
    ["SELECT * FROM \udcff", "SELECT '\ud800'", "DESCRIBE 'file:x.csv'", "EXPLAIN DESCRIBE 'file:x.csv'"],
)
def test_texts_that_once_failed(session: Session, text: str) -> None:
    check(session, text)
