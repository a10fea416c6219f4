"""Every .sql file in cases/ is a test: statements, each followed by what it must give.

-- {"id": 1}                      a row, as JSON (rows in any order, unless the statement has an ORDER BY)
-- no rows
-- ok                             it runs; what it did is shown by a later statement
-- error: unknown-option at 1:8   the error's code and place
-- says: text                     a part of the error, its hint, or the answer
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.api import Session, Table, Text
from penstock.errors import PenstockError
from penstock.plan.nodes import Pipeline
from penstock.sql.format import format_sql
from penstock.sql.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
FILES = sorted((HERE / "cases").glob("*.sql"))
EXPECTED = re.compile(r"-- (\{.*\}|no rows|ok|error: .*|says: .*)")


@dataclass
class Case:
    text: str = ""
    line: int = 1
    expected: list[str] = field(default_factory=list)


def cases(file: Path) -> list[Case]:
    """A statement is all up to the first line that says what it gives."""
    found = [Case()]
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        match = EXPECTED.match(line)
        if match:
            found[-1].expected.append(match[1])
            continue
        if found[-1].expected:
            found.append(Case(line=number))
        if found[-1].text or line.strip():
            found[-1].text += line
    return [case for case in found if case.text.strip()]


def parses(text: str) -> bool:
    try:
        parse(text)
    except PenstockError:
        return False
    return True


@pytest.fixture
def session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Session:
    folder = tmp_path_factory.mktemp("sql")
    shutil.copytree(HERE / "data", folder / "data")
    monkeypatch.chdir(folder)
    os.environ.pop("PENSTOCK_UNSET", None)
    return Session(spark=spark)


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_statements_give_what_is_written_below_them(file: Path, session: Session) -> None:
    for case in cases(file):
        where = f"{file.name}:{case.line}\n{case.text}"
        assert case.expected, f"{where}\nsays nothing of what it gives"
        kind = case.expected[0].partition(":")[0]
        if kind == "error":
            fails_as_expected(session, case, where)
        elif kind == "ok" or kind == "says":
            says = [e.removeprefix("says: ") for e in case.expected if e.startswith("says: ")]
            answer = "\n".join(answers(session, case.text))
            assert all(text in answer for text in says), f"{where}\ngave {answer}"
        else:
            assert rows(session, case.text) == ordered(case), where


def fails_as_expected(session: Session, case: Case, where: str) -> None:
    with pytest.raises(PenstockError) as caught:
        session.run(case.text, "case.sql")
    error = caught.value
    code, _, place = case.expected[0].removeprefix("error: ").partition(" at ")
    assert error.code == code, f"{where}\n{error}"
    if place:
        assert error.at is not None, f"{where}\n{error}"
        assert f"{error.at.line}:{error.at.column}" == place, f"{where}\n{error}"
    for says in case.expected[1:]:
        assert says.removeprefix("says: ") in str(error), f"{where}\n{error}"


def answers(session: Session, text: str) -> list[str]:
    found = []
    for outcome in session.run(text, "case.sql"):
        if isinstance(outcome, Table):
            found += [" | ".join(map(str, row)) for row in outcome.rows]
        elif isinstance(outcome, Text):
            found.append(outcome.text)
        else:
            found.append(str(outcome))
    return found


def rows(session: Session, text: str) -> list[str]:
    frame = session.sql(text)
    found = [canonical(json.loads(row)) for row in frame.toJSON().collect()]
    return found if is_ordered(session, text) else sorted(found)


def ordered(case: Case) -> list[str]:
    expected = [canonical(json.loads(e)) for e in case.expected if e != "no rows"]
    return expected if "order by" in case.text.lower().rpartition(")")[2] else sorted(expected)


def is_ordered(session: Session, text: str) -> bool:
    plan = session.check(text).plans[0]
    return isinstance(plan, Pipeline) and "order by" in text.lower().rpartition(")")[2]


def canonical(row: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True)


def all_cases() -> list[Case]:
    return [case for file in FILES for case in cases(file)]


def test_there_are_enough_statements() -> None:
    assert len(all_cases()) >= 60


@pytest.mark.parametrize(
    "case", [c for c in all_cases() if parses(c.text)], ids=lambda c: c.text.strip()[:40]
)
def test_formatting_is_idempotent_and_keeps_the_meaning(case: Case) -> None:
    once = format_sql(case.text)
    assert format_sql(once) == once
    assert [meaning(s) for s in parse(once)] == [meaning(s) for s in parse(case.text)]


def meaning(value: Any) -> Any:
    """A statement without what only says where and how it was written."""
    from dataclasses import fields, is_dataclass

    if is_dataclass(value):
        pairs = {
            f.name: meaning(getattr(value, f.name))
            for f in fields(value)
            if f.name not in ("at", "start", "end", "failed_cast")
        }
        if "text" in pairs:
            pairs["text"] = re.sub(r"\s+|--[^\n]*|/\*.*?\*/", "", str(pairs["text"])).lower()
        return (type(value).__name__, tuple(sorted(pairs.items(), key=lambda p: p[0])))
    return tuple(meaning(v) for v in value) if isinstance(value, tuple) else value
