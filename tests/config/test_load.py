from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import Files, load
from penstock.errors import ConfigError

from .conftest import Write


def test_objects_merge_lists_and_primitives_replace(write: Write) -> None:
    write(
        "base.yaml", "a: {x: 1, y: {p: 1, q: 2}}\nlist: [1, 2, 3]\nkept: yes\nwas_map: {a: 1}\nwas_text: a\n"
    )
    path = write(
        "derived.yaml",
        "extends: base.yaml\na: {y: {q: 3}, z: 4}\nlist: [9]\nwas_map: text\nwas_text: {b: 2}\n",
    )
    assert load(path).root.plain() == {
        "a": {"x": 1, "y": {"p": 1, "q": 3}, "z": 4},
        "list": [9],
        "kept": "yes",
        "was_map": "text",
        "was_text": {"b": 2},
    }


def test_every_value_keeps_the_file_it_came_from(write: Write) -> None:
    write("base.yaml", "a:\n  x: 1\n  y: 2\n")
    root = load(write("derived.yaml", "extends: base.yaml\na:\n  y: 3\n")).root
    assert str(root.items["a"].items["x"].at) == "base.yaml:2:6"
    assert str(root.items["a"].items["y"].at) == "derived.yaml:3:6"


def test_several_levels_in_several_folders(write: Write) -> None:
    write("shared/base.yaml", "a: 1\nb: 1\nc: 1\n")
    write("shared/team/team.yaml", "extends: ../base.yaml\nb: 2\nc: 2\n")
    document = load(write("mine/own.yaml", "extends: ../shared/team/team.yaml\nc: 3\n"))
    assert document.root.plain() == {"a": 1, "b": 2, "c": 3}
    assert document.files == ("mine/own.yaml", "shared/team/team.yaml", "shared/base.yaml")


def test_an_absolute_base(write: Write, tmp_path: Path) -> None:
    write("base.yaml", "a: 1")
    assert load(write("x/own.yaml", f"extends: {tmp_path}/base.yaml")).root.plain() == {"a": 1}


def test_each_file_is_read_once(write: Write) -> None:
    base = write("base.yaml", "a: 1\n")
    files = Files()
    files.load(write("one.yaml", "extends: base.yaml"))
    base.unlink()
    assert files.load(write("two.yaml", "extends: base.yaml")).root.plain() == {"a": 1}


def test_a_cycle_names_the_chain(write: Write) -> None:
    write("b.yaml", "extends: sub/c.yaml")
    write("sub/c.yaml", "x: 1\nextends: ../b.yaml")
    with pytest.raises(ConfigError) as raised:
        load(write("a.yaml", "extends: b.yaml"))
    assert raised.value.code == "extends-cycle"
    assert raised.value.exit_code == 2
    assert "b.yaml -> sub/c.yaml -> b.yaml" in raised.value.message
    assert str(raised.value.at) == "sub/c.yaml:2:10"


def test_a_file_cannot_extend_itself_even_through_a_link(write: Write) -> None:
    path = write("a.yaml", "extends: link/a.yaml")
    Path("link").symlink_to(".")
    with pytest.raises(ConfigError, match=r"a\.yaml -> a\.yaml"):
        load(path)


def test_a_missing_base_names_who_asked(write: Write) -> None:
    write("mid.yaml", "a: 1\nextends: gone/base.yaml\n")
    with pytest.raises(ConfigError) as raised:
        load(write("own.yaml", "extends: mid.yaml"))
    assert raised.value.code == "config-not-found"
    assert raised.value.message == "gone/base.yaml, which mid.yaml extends, does not exist"
    assert str(raised.value.at) == "mid.yaml:2:10"


def test_a_missing_file(write: Write) -> None:
    write("x", "")
    with pytest.raises(ConfigError, match=r"none\.yaml does not exist"):
        load("none.yaml")


@pytest.mark.parametrize("extends", ["[a.yaml, b.yaml]", "5", "''", "~", "{a: b}"])
def test_extends_takes_one_path(write: Write, extends: str) -> None:
    with pytest.raises(ConfigError, match="takes the path of one file") as raised:
        load(write("a.yaml", f"extends: {extends}"))
    assert raised.value.at is not None


def test_a_folder_is_not_a_file(write: Write) -> None:
    with pytest.raises(ConfigError, match="is not a file"):
        load(write("a.yaml", "extends: ."))


def test_a_path_that_cannot_be(write: Write) -> None:
    with pytest.raises(ConfigError) as raised:
        load(write("a.yaml", 'extends: "a\\0b"'))
    assert raised.value.at is not None


def test_a_base_chosen_by_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGE", "test")
    write("test.yaml", "a: 1")
    assert load(write("own.yaml", "extends: ${env:STAGE}.yaml")).root.plain() == {"a": 1}


def test_binary_is_underlined_at_its_first_bad_byte(write: Write) -> None:
    path = write("a.yaml", "")
    path.write_bytes(b"a: 1\nb: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8") as raised:
        load(path)
    assert str(raised.value.at) == "a.yaml:2:4"


def test_a_file_too_large(write: Write) -> None:
    path = write("a.yaml", "")
    path.write_bytes(b"#" * (5 << 20))
    with pytest.raises(ConfigError, match="larger than 4 MB"):
        load(path)
