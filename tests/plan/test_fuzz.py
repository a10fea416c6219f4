"""Whatever is written, a check gives plans or one of our errors with its place, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from penstock.api import Session
from penstock.config import find_project
from penstock.errors import PenstockError
from tests.fuzzing import EXAMPLES, mutations
from tests.sql.corpus import EVERYTHING


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("project")
    (folder / "penstock.yaml").write_text("streams: file:///nowhere\n")
    return Session(find_project(folder / "penstock.yaml"))


def failure(session: Session, text: str) -> PenstockError | None:
    try:
        session.check(text)
    except PenstockError as error:
        return error
    return None


@settings(max_examples=EXAMPLES, deadline=None)
@given(text=mutations(EVERYTHING))
def test_nearly_right_texts(session: Session, text: str) -> None:
    error = failure(session, text)
    if error is not None:
        assert error.at is not None, f"{error.code}: {error}"
        assert error.at.line >= 1
        assert error.render()
    assert [path.name for path in Path(session.state).parent.iterdir()] == ["penstock.yaml"]
