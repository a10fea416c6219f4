from __future__ import annotations

import pytest

from penstock.config import looks_secret, redact
from penstock.config.redact import concealed
from penstock.config.tree import parse
from penstock.errors import ConfigError


@pytest.mark.parametrize(
    "key",
    [
        "password", "db_password", "PASSWORD", "sasl.jaas.config", "ssl.keystore.password", "client_secret",
        "apiKey", "api_key", "apikey", "fs.s3a.secret.key", "fs.s3a.access.key", "token", "auth-token",
        "credentials", "basic.auth.user.info", "Authorization", "connection_string", "aws_access_key_id",
        "private_key",
    ],
)  # fmt: skip
def test_keys_of_secrets(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "key", "key.field", "key_format", "primary_key", "topic", "user", "tokenizer", "keys", "monkey", "",
        "sasl.oauthbearer.token.endpoint.url", "ssl.keystore.location", "password_file", "passenger",
        "secret_name", "aws.credentials.provider", "session.timeout.ms", "compass",
    ],
)  # fmt: skip
def test_keys_of_others(key: str) -> None:
    assert not looks_secret(key)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("password", "hunter2", "***"),
        ("password", 5, "***"),
        ("password", None, None),
        ("password", "${env:PW}", "${env:PW}"),
        ("password", "${env:PW:-hunter2}", "${env:PW:-***}"),
        ("password", "x${env:PW}", "***"),
        ("password", ["a", "b"], ["***", "***"]),
        ("credentials", {"user": "a", "value": "b"}, {"user": "***", "value": "***"}),
        (
            "consumer",
            {"sasl.jaas.config": "x", "group.id": "g"},
            {"sasl.jaas.config": "***", "group.id": "g"},
        ),
        ("url", "jdbc:postgresql://me:hunter2@h/d", "jdbc:postgresql://me:***@h/d"),
        ("url", ["a://u:hunter2@h"], ["a://u:***@h"]),
        ("topic", "orders", "orders"),
        ("topic", "${env:T:-orders}", "${env:T:-orders}"),
        ("port", 9092, 9092),
    ],
)
def test_what_is_shown(key: str, value: object, shown: object) -> None:
    assert redact(key, value) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password: hunter2", "password: *******"),
        ("  - password:   'hun ter2'  # x", "  - password:   **** *****  * *"),
        ("a: {password: hunter2, b: 1}", "a: {password: *******, b: 1}"),
        ('a: {"api_key": "hun, ter2", b: 1}', 'a: {"api_key": ***** *****, b: 1}'),
        ("url: a://me:hunter2@h/x", "url: a://me:*******@h/x"),
        ("password: ${env:PW}", "password: ${env:PW}"),
        ("password: ${env:PW:-hunter2}", "password: ******************"),
        ("topic: orders", "topic: orders"),
        ("password: |\n  hunter2\n  more", "  ****"),
        ("credentials:\n  user:\n    value: hunter2", "    ****** *******"),
    ],
)
def test_lines_of_errors_hide_secrets_and_keep_their_columns(text: str, shown: str) -> None:
    lines = text.split("\n")
    assert concealed(lines, len(lines) - 1) == shown
    assert len(shown) == len(lines[-1])


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2\npassword: hunter2",
        "password: 'hunter2",
        "a: [{password: hunter2, password: hunter2}]",
        "password: ${env:hunter2",
        "password: >\n  hunter2\n\thunter2: [",
        "password: !x hunter2",
        "url: a://u:hunter2@h\nurl: a://u:hunter2@h",
    ],
)
def test_errors_do_not_show_secrets(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, "f.yaml")
    assert "hunter2" not in str(raised.value) + repr(raised.value.to_dict())
