from __future__ import annotations

import pytest

from penstock.config.tree import parse
from penstock.errors import ConfigError


def test_every_value_and_key_has_its_place() -> None:
    text = "a: 1\nb:\n  - x\n  - c: 'y z'\n"
    root = parse(text, "f.yaml")
    inner = root.items["b"].value[1].items["c"]  # type: ignore[index, union-attr]
    assert (inner.at.line, inner.at.column, inner.at.length, inner.at.text) == (4, 8, 5, "  - c: 'y z'")
    assert inner.key_at is not None
    assert (inner.key_at.line, inner.key_at.column) == (4, 5)
    assert (inner.span.column, inner.span.length) == (5, 8)
    assert root.plain() == {"a": 1, "b": ["x", {"c": "y z"}]}


def test_places_count_characters_and_lines_as_editors_do() -> None:
    text = "\ufeffé: 'x😀\u2028y'\r\nb: 2\n"
    root = parse(text, "f.yaml")
    assert (root.items["b"].at.line, root.items["b"].at.column, root.items["b"].at.text) == (2, 4, "b: 2")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("0x1F", 31),
        ("0o17", 15),
        ("010", 10),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".inf", float("inf")),
        ("true", True),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("off", "off"),
        ("2024-01-31", "2024-01-31"),
        ("12:30:45", "12:30:45"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1.0),
        ("! 1", "1"),
        ("1_000", "1_000"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    plain = parse(f"a: {text}", "f.yaml").items["a"].value
    assert plain == value
    assert type(plain) is type(value)


def test_keys_are_text() -> None:
    assert parse("1: a\ntrue: b\n2024-01-01: c", "f").plain() == {"1": "a", "true": "b", "2024-01-01": "c"}


def test_a_scalar_keeps_how_it_was_written() -> None:
    assert parse("a: 1.10", "f").items["a"].text == "1.10"


def test_aliases_and_merge_keys() -> None:
    root = parse("a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: {<<: [*a, {z: 4}]}", "f")
    assert root.items["b"].plain() == {"x": 1, "y": 2}
    assert root.items["b"].at.line == 2
    assert root.items["c"].plain() == {"x": 1, "y": 3}
    assert root.items["d"].plain() == {"x": 1, "y": 2, "z": 4}


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3", "duplicate-key", 3, 1),
        ("a: *x", "bad-yaml", 1, 4),
        ("a: &x [*x]", "bad-yaml", 1, 8),
        ("a:\n\t- b", "bad-yaml", 2, 1),
        ("a: 'b", "bad-yaml", 1, 6),
        ("a: b\n---\nc: d", "bad-yaml", 2, 1),
        ("- 1", "bad-yaml", 1, 1),
        ("text", "bad-yaml", 1, 1),
        ("a: b\nc: \x00", "bad-yaml", 2, 4),
        ("a: b\nc: \ud800", "bad-yaml", 2, 4),
        ('a: "\\U99999999"', "bad-yaml", 1, 7),
        ("a: !!python/name:os.system x", "bad-yaml", 1, 4),
        ("a: !mine [1]", "bad-yaml", 1, 4),
        ("a: !!int x", "bad-yaml", 1, 4),
        ("<<: 5", "bad-yaml", 1, 5),
        ("? [a, b]\n: c", "bad-key", 1, 3),
        ("'': c", "bad-key", 1, 1),
        ("a: " + "9" * 5000, "bad-value", 1, 4),
        ("a: " + "[" * 100_000, "too-deep", 1, 53),
        ("a: ${evn:X}", "bad-reference", 1, 4),
        ("a: b ${env:X", "bad-reference", 1, 6),
        ("a: ${env:}", "bad-reference", 1, 4),
        ("a: ${env:X:default}", "bad-reference", 1, 4),
        ("a: ${env:A:-${env:B}}", "bad-reference", 1, 4),
    ],
)
def test_bad_text_is_underlined(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, "f.yaml")
    assert raised.value.code == code
    assert raised.value.at is not None
    assert (raised.value.at.source, raised.value.at.line, raised.value.at.column) == ("f.yaml", line, column)


def test_aliases_cannot_grow_without_end() -> None:
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
    )
    with pytest.raises(ConfigError, match="aliases expanded"):
        parse(bomb, "f.yaml")


def test_aliases_cannot_nest_without_end() -> None:
    nested = "a0: &a0 1\n" + "".join(f"a{i}: &a{i} [[[[*a{i - 1}]]]]\n" for i in range(1, 60))
    with pytest.raises(ConfigError, match="levels deep"):
        parse(nested, "f.yaml")


def test_hints() -> None:
    with pytest.raises(ConfigError, match="indent with spaces"):
        parse("a:\n\t- b", "f")
    with pytest.raises(ConfigError, match="quote a value with a reference"):
        parse("a: {b: ${env:X}}", "f")
    with pytest.raises(ConfigError, match=r"did you mean '\$\{env:\.\.\.\}'"):
        parse("a: ${evn:X}", "f")


def test_references_of_others_are_left_alone() -> None:
    assert parse("a: ${spark.x} ${sys:y} ${YYYY}", "f").plain() == {"a": "${spark.x} ${sys:y} ${YYYY}"}
