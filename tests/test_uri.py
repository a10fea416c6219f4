from __future__ import annotations

from string import ascii_letters, digits, punctuation
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.redact import hide
from penstock.uri import Uri, mask, passwords


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


SECRET = "hunter2"
odd = st.text("'\"`,;:&#%+=\\()[]{}<>|!*é ", max_size=4)
written = st.tuples(odd, odd).map(lambda parts: f"{parts[0]}x{SECRET}{parts[1]}")
"""Passwords with characters that people do not think of."""
ends = st.sampled_from(["", "/", "/news", "/news?x=1", "/a,b?x=1&y=2"])
hosts = st.sampled_from(["h", "127.0.0.1:9092", "h1:9092,h2:9092", "[::1]:6379"])


@given(password=written, at=st.sampled_from(["", "@", "@@", "/", "?", "/?"]), host=hosts, end=ends)
def test_no_character_shows_a_password(password: str, at: str, host: str, end: str) -> None:
    whole = f"{password}{at}{SECRET}"
    uri = Uri.parse(f"kafka://me:{whole}@{host}{end}")
    assert (uri.user, uri.authority) == ("me", host)
    assert str(uri) == f"kafka://me:***@{host}{end}"
    assert SECRET not in repr(uri)


@given(password=written, host=hosts, end=ends)
def test_no_character_shows_a_password_in_a_text(password: str, host: str, end: str) -> None:
    for text in (
        f"no answer: 'kafka://me:{password}@{host}{end}' is away",
        f"kafka://me:{password}@{host}{end}",
    ):
        assert SECRET not in mask(text)
        assert SECRET not in hide(text)
        assert host in mask(text)


@given(st.text(ascii_letters + digits + punctuation + " é", min_size=1))
def test_a_password_that_is_encoded_is_read_and_shown_by_nobody(password: str) -> None:
    text = f"redis://me:{quote(password, safe='')}@h:1/news"
    uri = Uri.parse(text)
    assert (uri.user, uri.password, uri.authority, uri.path) == ("me", password, "h:1", "news")
    assert str(uri) == mask(text) == "redis://me:***@h:1/news"
    assert passwords(f"'{text}'") == [quote(password, safe="")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nats://s3cret@h:4222/news", "nats://***@h:4222/news"),
        ("https://s3cret@h/a@b", "https://***@h/a@b"),
        ("abfss://container@account.net/a", "abfss://container@account.net/a"),
        ("redis://:s3cret@h", "redis://:***@h"),
        ("http://h/a?sv=1&sig=s3cret&sp=r", "http://h/a?sv=1&sig=***&sp=r"),
        ("http://h/a?auth=s3cret", "http://h/a?auth=***"),
        ("http://h/a?X-Amz-Signature=s3cret", "http://h/a?X-Amz-Signature=***"),
        ("http://h/a?basic.auth.user.info=me:s3cret", "http://h/a?basic.auth.user.info=***"),
        ("http://h/a?password=it's-s3cret", "http://h/a?password=***"),
        ("http://h/a?author=me&design=x", "http://h/a?author=me&design=x"),
        ("pulsar://h/t?admin=http://me:s3cret@h:8080", "pulsar://h/t?admin=http://me:***@h:8080"),
        ("pulsar://h/t?admin=http%3A%2F%2Fme%3As3cret%40h", "pulsar://h/t?admin=http://me:***@h"),
        ("kafka://me:s3/cr?et@h:9092/t", "kafka://me:***@h:9092/t"),
        ("kafka://me:s3cret@h/t?mail=a@b", "kafka://me:***@h/t?mail=a@b"),
        ("http://h:8080/a@b?c=d@e", "http://h:8080/a@b?c=d@e"),
        ("kafka://${env:HOST}:9092/t@x", "kafka://${env:HOST}:9092/t@x"),
    ],
)
def test_shows_what_is_no_secret(text: str, shown: str) -> None:
    assert str(Uri.parse(text)) == shown
    assert "s3cret" not in mask(f"at '{text}' it says no")


def test_a_text_keeps_what_is_around_its_uris() -> None:
    text = '{"a":"kafka://me:s3cret@h","mail":"me@home"} from redis://h:1/a to nats://u:s3cret@h/b, a@b'
    assert mask(text) == text.replace("s3cret", "***")
    assert mask(text, keep_length=True) == text.replace("s3cret", "******")
