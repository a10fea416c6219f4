from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.parse import parse
from penstock.sql.secrets import replace_secrets


def replaced(text: str) -> tuple[str, list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []

    def instead(key: str, secret: str) -> str:
        seen.append((key, secret))
        return f"<{key}>"

    return replace_secrets(parse(text)[-1], instead), seen


def test_values_of_secret_options_are_replaced_and_nothing_else() -> None:
    text, seen = replaced(
        'SELECT 1;\n  CREATE SOURCE CONNECTOR s FROM mysql WITH ("user" = "password",\n'
        "\"password\" = \"password\", 'api.token' = 'it''s', port = 3306)"
    )
    assert text == (
        'CREATE SOURCE CONNECTOR s FROM mysql WITH ("user" = "password",\n'
        "\"password\" = '<password>', 'api.token' = '<api.token>', port = 3306)"
    )
    assert seen == [("password", "password"), ("api.token", "it's")]


def test_passwords_inside_uris_are_replaced_and_kept_as_they_are_meant() -> None:
    text, seen = replaced("SELECT * FROM 'a://u:p%40ss@h/x' WHERE password = 'kept' INTO 'b://u:two@h/x'")
    assert text == "SELECT * FROM 'a://u:<password>@h/x' WHERE password = 'kept' INTO 'b://u:<password>@h/x'"
    assert seen == [("password", "p@ss"), ("password", "two")]


def test_a_password_with_a_quote_is_replaced_whole() -> None:
    text, seen = replaced("SELECT * FROM 'a://u:pa''s\\'s@h/x' INTO \"b://u:t'o@h/x\"")
    assert text == "SELECT * FROM 'a://u:<password>@h/x' INTO \"b://u:<password>@h/x\""
    assert seen == [("password", "pa's's"), ("password", "t'o")]


def test_a_bare_value_is_replaced_whole() -> None:
    text, _ = replaced("CREATE SOURCE s (a INT) WITH (token = ab, x = 1)")
    assert text == "CREATE SOURCE s (a INT) WITH (token = '<token>', x = 1)"


def test_references_are_no_secrets() -> None:
    text = "CREATE VIEW v AS SELECT * FROM 'x://u:${env:A}@h/t' WITH (password = '${env:B}')"
    assert replaced(text) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        "CREATE SOURCE s (id INT) WITH (password = 'hunter2', oops)",
        "SELECT * FROM 'a://u:hunter2@h/x' WHERE AND",
        "CREATE SOURCE s (id INT) WITH ('token' = 'hunter2', token = 'hunter3')",
    ],
)
def test_an_error_on_the_same_line_shows_no_secret(text: str) -> None:
    with pytest.raises(PenstockError) as caught:
        parse(text)
    assert "hunter" not in str(caught.value)
    assert caught.value.at is not None
    assert len(caught.value.at.text) == len(text)
