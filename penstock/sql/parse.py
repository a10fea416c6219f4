"""Text -> statements, with the place of everything that can be wrong."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from typing import Literal

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import StatementError, did_you_mean
from penstock.options import Setting
from penstock.sql import statements as s
from penstock.sql.create import KINDS, about, create, flag, refuse_kind
from penstock.sql.cursor import Fault
from penstock.sql.dialect import Parser, new_parser, tokenize
from penstock.sql.places import place_of
from penstock.sql.query import QUERY_WORDS, at_query, read_query

_CLAUSES = ("SELECT", "FROM", "JOIN", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTO", "WITH")

_REFUSED = {
    **dict.fromkeys(
        ("UPDATE", "DELETE", "MERGE"),
        "a sink can merge: SELECT ... INTO 'uri' WITH (merge_on = 'id', delete_on = '...')",
    ),
    **dict.fromkeys(
        ("ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "COMMENT", "COMMIT", "COPY", "DECLARE",
         "EXECUTE", "EXPORT", "GRANT", "IMPORT", "LIST", "LOAD", "LOCK", "MSCK", "PREPARE", "REFRESH",
         "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK", "TRUNCATE", "UNCACHE", "UNSET", "USE"),
        "it moves data: SELECT ... FROM 'uri' INTO 'uri', or INSERT INTO name SELECT ...",
    ),
}  # fmt: skip
"""What Spark knows and Penstock does not take, and what to do instead."""

_ACTIONS: dict[str, Literal["pause", "resume", "restart"]] = {
    "PAUSE": "pause", "RESUME": "resume", "RESTART": "restart",
}  # fmt: skip

_DEPTH = 6000
"""sqlglot takes some twenty frames for each pair of brackets: Python's own limit allows forty pairs."""

_SLIPS = (ParseError, ValueError, TypeError, AttributeError, LookupError, AssertionError, ArithmeticError)
"""What sqlglot lets through on malformed text."""


def parse(text: str, source: str = "statement") -> list[s.Statement]:
    """All statements of a text; a text of nothing but comments has none."""
    return [statement for statement, _, _ in read(text, source)]


def read(text: str, source: str) -> list[tuple[s.Statement, set[int], set[int]]]:
    """The statements, and for each where its words stand that were read as keywords, and as names."""
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    parser = new_parser()
    depth = sys.getrecursionlimit()
    sys.setrecursionlimit(max(depth, _DEPTH))
    try:
        return [
            (_parse_one(parser, chunk, text, source), parser.keywords, parser.names)
            for chunk in _chunks(tokenize(text))
        ]
    except Fault as fault:
        at = place_of(source, text, fault.start, fault.end)
        raise StatementError(fault.code, fault.message, at=at, hint=fault.hint) from None
    finally:
        sys.setrecursionlimit(depth)


def _chunks(tokens: list[Token]) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _parse_one(parser: Parser, tokens: list[Token], text: str, source: str) -> s.Statement:
    parser.start(tokens, text, source)
    try:
        statement = _statement(parser)
        if not parser.done:
            parser.unexpected(hint="only a SELECT takes INTO" if parser.peek() == "INTO" else None)
        return statement
    except Fault as fault:
        fault.hint = fault.hint or _clause_hint(tokens, text, fault.start)
        raise
    except RecursionError:
        parser.fail("this statement is nested too deeply", 0, code="too-deep")
    except _SLIPS:
        parser.unexpected()


def _clause_hint(tokens: list[Token], text: str, start: int) -> str | None:
    """For a misspelt keyword: sqlglot takes it for an alias, and trips over what follows it."""
    for token in [token for token in tokens if token.start <= start][-3:]:
        written = text[token.start : token.end + 1]
        if token.token_type == TokenType.VAR and len(written) > 3:
            close = difflib.get_close_matches(written.upper(), _CLAUSES, n=1, cutoff=0.75)
            if close:
                return f"did you mean {close[0]} instead of '{written}'?"
    return None


def _statement(p: Parser) -> s.Statement:
    word = p.peek()
    if at_query(p):
        return _select(p)
    if word in _STATEMENTS:
        return _STATEMENTS[word](p)
    if word in _REFUSED:
        p.fail(f"Penstock does not run {word}", code="unsupported-statement", hint=_REFUSED[word])
    hint = did_you_mean(word, (*_STATEMENTS, *QUERY_WORDS)) if word else None
    return p.fail(f"expected a statement, found {p.found()}", hint=hint)


def _select(p: Parser) -> s.Select:
    first = p.index
    query = read_query(p)
    sinks: list[s.Endpoint] = []
    if p.take("INTO"):
        sinks.append(_endpoint(p))
        while p.take(","):
            sinks.append(_endpoint(p))
        if p.peek() in _CLAUSES:
            p.fail(f"unexpected {p.found()} behind INTO", hint="INTO stands at the end of the statement")
    elif p.peek() == "WITH":
        p.fail(
            "this WITH belongs to nothing", hint="WITH (...) stands right behind a URI, or behind its alias"
        )
    return s.Select(*about(p, first), query, tuple(sinks))


def _endpoint(p: Parser) -> s.Endpoint:
    first = p.index
    uri = p.string()
    if uri is not None and not uri.strip():
        p.fail("expected a URI, found an empty string", first)
    name = p.name("a name or a 'uri'") if uri is None else uri
    at = p.place(first, p.index)
    return s.Endpoint(name, uri is not None, p.settings() if p.take("WITH") else (), at)


def _insert(p: Parser) -> s.Insert:
    first = p.index
    p.skip()
    if p.peek() == "OVERWRITE":
        hint = "INSERT INTO name SELECT ... WITH (mode = 'overwrite')"
        p.fail("Penstock does not run INSERT OVERWRITE", code="unsupported-statement", hint=hint)
    p.expect("INTO")
    if p.peek() == "TABLE" and p.peek(1) and p.peek(1) not in QUERY_WORDS:
        p.skip()
    target = _endpoint(p)
    if p.found() == "'('" and p.peek(1) not in (*QUERY_WORDS, ""):
        p.fail("INSERT takes no list of columns", hint="name them in the SELECT: SELECT a AS x, b AS y")
    query = read_query(p, owns_with=True)
    settings = p.settings() if p.take("WITH") else ()
    return s.Insert(*about(p, first), target, query, settings)


def _drop(p: Parser) -> s.Drop:
    first = p.index
    p.skip()
    kind = p.peek()
    if kind not in KINDS:
        refuse_kind(p, "DROP", tuple(KINDS))
    p.skip()
    if_exists = flag(p, "IF", "EXISTS")
    name = p.name(f"the {KINDS[kind]}'s name")
    return s.Drop(*about(p, first), KINDS[kind], name, if_exists)


def _show(p: Parser) -> s.Show:
    first = p.index
    p.skip()
    plurals = {f"{word}S": kind for word, kind in KINDS.items()}
    kind = p.peek()
    if kind not in plurals:
        refuse_kind(p, "SHOW", tuple(plurals))
    p.skip()
    return s.Show(*about(p, first), plurals[kind])


def _describe(p: Parser) -> s.Describe:
    first = p.index
    p.skip()
    if p.peek() in KINDS and p.peek(1):
        p.skip()
    target = _endpoint(p)
    return s.Describe(*about(p, first), target)


def _upkeep(p: Parser) -> s.Upkeep:
    first = p.index
    action: Literal["optimize", "vacuum"] = "optimize" if p.peek() == "OPTIMIZE" else "vacuum"
    p.skip()
    p.take("TABLE")
    return s.Upkeep(*about(p, first), action, _endpoint(p))


def _explain(p: Parser) -> s.Explain:
    first = p.index
    p.skip()
    if p.peek() in ("EXPLAIN", "EXTENDED", "FORMATTED", "CODEGEN", "COST"):
        p.fail(
            f"expected a statement, found {p.found()}",
            hint="penstock explain --physical shows Spark's own plan",
        )
    statement = _statement(p)
    return s.Explain(*about(p, first), statement)


def _set(p: Parser) -> s.Set:
    first = p.index
    p.skip()
    key, at = p.key()
    if not p.take("="):
        p.fail(f"expected = behind '{key}', found {p.found()}", hint="SET key = value")
    begin = p.index
    value = p.value()
    if not p.done:
        # Spark's settings hold what is not a token of SQL: local[2], -Xmx2g -XX:+UseSerialGC.
        p.to_end()
        value = p.raw(begin, p.index)
    return s.Set(*about(p, first), Setting(key, value, at))


def _lifecycle(p: Parser) -> s.Lifecycle:
    first = p.index
    action = _ACTIONS[p.peek()]
    p.skip()
    kind: Literal["connector", "pipeline"] = "connector" if p.peek() == "CONNECTOR" else "pipeline"
    if not p.take(kind.upper()):
        p.fail(f"expected CONNECTOR or PIPELINE, found {p.found()}")
    name = p.name(f"the {kind}'s name")
    return s.Lifecycle(*about(p, first), action, kind, name)


_STATEMENTS: dict[str, Callable[[Parser], s.Statement]] = {
    "INSERT": _insert, "CREATE": create, "DROP": _drop, "SHOW": _show, "DESCRIBE": _describe,
    "DESC": _describe, "EXPLAIN": _explain, "SET": _set, "PAUSE": _lifecycle, "RESUME": _lifecycle,
    "RESTART": _lifecycle, "OPTIMIZE": _upkeep, "VACUUM": _upkeep,
}  # fmt: skip
