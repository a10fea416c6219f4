from __future__ import annotations

import pytest

from penstock.uri import Uri, mask


def test_parts_of_a_uri() -> None:
    uri = Uri.parse("kafka://me:s%40fe@h1:9092,h2:9092/orders?start=latest&x=")
    assert (uri.scheme, uri.user, uri.password) == ("kafka", "me", "s@fe")
    assert (uri.authority, uri.path, uri.query) == (
        "h1:9092,h2:9092",
        "orders",
        (("start", "latest"), ("x", "")),
    )


@pytest.mark.parametrize("text", ["data/*.csv", "/tmp/a{b,c}?.json", "out/date={YYYY-MM-DD}/*.parquet"])
def test_plain_paths_keep_every_character(text: str) -> None:
    assert Uri.parse(text) == Uri(text, path=text)


def test_a_file_uri_keeps_globs_and_question_marks() -> None:
    assert Uri.parse("file:///data/a?.csv").path == "/data/a?.csv"


def test_passwords_never_show() -> None:
    uri = Uri.parse("postgresql://me:hunter2@h/db?sslpassword=hunter2&x=1")
    assert "hunter2" not in f"{uri} {uri!r} {mask('from ' + uri.text)}"
    assert str(uri) == "postgresql://me:***@h/db?sslpassword=***&x=1"
