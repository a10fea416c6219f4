from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import load_project, show
from penstock.config.show import Line, Shown
from penstock.config.tree import parse
from penstock.errors import PenstockError

from .conftest import Write


def test_a_project_with_where_each_value_came_from(write: Write) -> None:
    write("base.yaml", "master: local[1]\nspark:\n  spark.a: 1\n  spark.b: 2\n")
    path = write(
        "penstock.yaml",
        """\
        extends: base.yaml
        spark: {spark.b: 3}
        data_sources:
          db:
            type: jdbc
            url: jdbc:postgresql://me:hunter2@h/d
            password: hunter2
            token: ${env:TOKEN:-hunter2}
            tables: [a, b]
        """,
    )
    shown = show(path)
    assert shown.render() == (
        'master: "local[1]"                       # base.yaml:1\n'
        "spark:\n"
        "  spark.a: 1                             # base.yaml:3\n"
        "  spark.b: 3                             # penstock.yaml:2\n"
        "data_sources:\n"
        "  db:\n"
        "    type: jdbc                           # penstock.yaml:5\n"
        '    url: "jdbc:postgresql://me:***@h/d"  # penstock.yaml:6\n'
        '    password: "***"                      # penstock.yaml:7\n'
        '    token: "${env:TOKEN:-***}"           # penstock.yaml:8\n'
        "    tables:\n"
        "      - a                                # penstock.yaml:9\n"
        "      - b                                # penstock.yaml:9\n"
    )
    assert shown.lines[2] == Line(("spark", "spark.b"), 3, "penstock.yaml:2")
    assert shown.to_dict()["values"][2] == {  # type: ignore[index]
        "path": "spark.spark.b",
        "value": 3,
        "source": "penstock.yaml:2",
    }
    assert "hunter2" not in repr(shown)


def test_notes(write: Write) -> None:
    shown = show(write("a.yaml", "datasink: {type: kafka, integrations: {mail: {}}}"))
    assert shown.notes == ("integrations are kept, but nothing is sent to them",)


def test_a_profile_of_the_project(write: Write) -> None:
    project = load_project(write("p.yaml", "performance_profiles: {mine: {}}"))
    path = write("a.yaml", "datasource: {type: kafka, performance_profile: mine}")
    assert show(path, project=project).lines
    with pytest.raises(PenstockError, match="there is no performance profile 'mine'"):
        show(path)


def test_an_invalid_file_is_not_shown(write: Write) -> None:
    with pytest.raises(PenstockError, match="unknown key 'mastr'"):
        show(write("a.yaml", "mastr: x"))


def test_an_empty_file(write: Write) -> None:
    assert show(write("a.yaml", "# nothing\n")).render() == ""


text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text.filter(bool), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(text.filter(bool), values, max_size=4))
def test_what_is_rendered_means_the_same(data: dict[str, object]) -> None:
    lines = tuple(_lines((), data))
    assert parse(Shown(lines, ()).render(), "f").plain() == data


def _lines(path: tuple[str | int, ...], value: object) -> list[Line]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict | list) and value:
        return [line for key, child in items for line in _lines((*path, key), child)]
    return [Line(path, value, "f.yaml:1")]  # type: ignore[arg-type]
