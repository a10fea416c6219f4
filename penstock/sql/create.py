"""CREATE in all its forms."""

from __future__ import annotations

import difflib
from typing import Literal, NoReturn

from penstock.errors import Place, did_you_mean
from penstock.options import Setting
from penstock.schema import Column
from penstock.sql import statements as s
from penstock.sql.dialect import Parser
from penstock.sql.query import read_query

KINDS: dict[str, s.ObjectKind] = {
    "SOURCE": "source", "TABLE": "table", "SINK": "sink", "VIEW": "view", "CONNECTOR": "connector",
    "PIPELINE": "pipeline",
}  # fmt: skip
_CREATED = ("SOURCE", "TABLE", "SINK", "VIEW", "SOURCE CONNECTOR", "SINK CONNECTOR")
_ROW_FORMATS = ("PLAIN", "UPSERT", "DEBEZIUM", "MAXWELL", "CANAL")
_TYPES = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL",
          "STRING", "VARCHAR", "CHAR", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY", "MAP",
          "STRUCT", "VARIANT")  # fmt: skip
_CONSTRAINTS = (
    "PRIMARY KEY",
    "CONSTRAINT",
    "UNIQUE",
    "FOREIGN KEY",
    "CHECK",
    "REFERENCES",
    "DEFAULT",
    "GENERATED",
)


def about(p: Parser, first: int) -> tuple[str, Place]:
    """The text of the statement that began at token `first`, and where it begins."""
    return p.raw(first, p.index), p.place(first)


def flag(p: Parser, *words: str) -> bool:
    """Whether `words` stand here; the first one alone is a mistake when the second is near."""
    if p.peek() != words[0] or p.peek(1) not in ("NOT", "EXISTS"):
        return False
    p.expect(*words)
    return True


def refuse_kind(p: Parser, verb: str, kinds: tuple[str, ...]) -> NoReturn:
    word = p.peek()
    close = difflib.get_close_matches(word, kinds, n=1, cutoff=0.7)
    if word and not close:
        hint = f"it knows {verb} {', '.join(kinds[:-1])} and {kinds[-1]}"
        p.fail(f"Penstock does not run {verb} {word}", code="unsupported-statement", hint=hint)
    p.fail(
        f"expected {', '.join(kinds[:-1])} or {kinds[-1]}, found {p.found()}",
        hint=f"did you mean {verb} {close[0]}?" if close else None,
    )


def create(p: Parser) -> s.Statement:
    first = p.index
    p.skip()
    replace = p.take("OR", "REPLACE")
    kind = p.peek()
    if kind in ("SOURCE", "SINK") and p.peek(1) == "CONNECTOR" and p.peek(2) not in ("", "WITH"):
        return _connector(p, first, replace)
    if kind not in ("SOURCE", "TABLE", "SINK", "VIEW"):
        refuse_kind(p, "CREATE", _CREATED)
    p.skip()
    if_not_exists = flag(p, "IF", "NOT", "EXISTS")
    name = p.name(f"the {kind.lower()}'s name")
    if kind == "VIEW":
        p.expect("AS", hint=f"CREATE VIEW {name} AS SELECT ...")
        query = read_query(p)
        return s.CreateView(*about(p, first), name, query, replace, if_not_exists)
    if kind == "SINK":
        query = _sink_query(p)
        taken = [relation.name for relation in query.relations[-1:] if relation.settings]
        hint = f"the WITH before this belongs to '{taken[0]}'; the sink needs its own" if taken else ""
        settings, row_format, encoding = _properties(p, "CREATE SINK", hint)
        return s.CreateSink(
            *about(p, first), name, query, settings, row_format, encoding, replace, if_not_exists
        )
    return _source(p, first, "source" if kind == "SOURCE" else "table", name, replace, if_not_exists)


def _connector(p: Parser, first: int, replace: bool) -> s.CreateConnector:
    kind: Literal["source", "sink"] = "source" if p.peek() == "SOURCE" else "sink"
    if replace:
        p.fail("a connector cannot be replaced", hint="DROP CONNECTOR name, then create it again")
    p.expect(kind.upper(), "CONNECTOR")
    if_not_exists = flag(p, "IF", "NOT", "EXISTS")
    name = p.name("the connector's name")
    p.expect("FROM" if kind == "source" else "TO")
    system = p.name("a system such as mysql")
    p.expect("WITH")
    settings = p.settings()
    return s.CreateConnector(*about(p, first), kind, name, system, settings, if_not_exists)


def _source(
    p: Parser, first: int, kind: Literal["source", "table"], name: str, replace: bool, if_not_exists: bool
) -> s.CreateSource:
    columns, watermark = _columns(p) if p.found() == "'('" else ((), None)
    if p.peek() == "AS":
        p.fail(f"CREATE {kind.upper()} takes no SELECT", hint=f"CREATE VIEW {name} AS SELECT ...")
    settings, row_format, encoding = _properties(p, f"CREATE {kind.upper()}")
    return s.CreateSource(
        *about(p, first),
        kind,
        name,
        columns,
        settings,
        watermark,
        row_format,
        encoding,
        replace,
        if_not_exists,
    )


def _sink_query(p: Parser) -> s.Query:
    if p.take("AS"):
        return read_query(p, owns_with=True)
    p.expect("FROM", hint="CREATE SINK name FROM source WITH (...), or AS SELECT ... WITH (...)")
    if p.string() is not None:
        p.fail(
            "expected the name of a source",
            p.index - 1,
            hint="for a URI: CREATE SINK name AS SELECT * FROM 'uri'",
        )
    begin = p.index
    name = p.name("the name of a source")
    at, text = p.place(begin, p.index), "SELECT * FROM "
    relation = s.Relation(name, False, (), at, start=len(text), end=len(text) + len(p.raw(begin, p.index)))
    names = frozenset(name.lower().split("."))
    return s.Query(text + p.raw(begin, p.index), at, (relation,), names=names, star=True)


def _properties(p: Parser, owner: str, hint: str = "") -> tuple[tuple[Setting, ...], str | None, str | None]:
    """`WITH (...)`, and `ROW FORMAT x` or `FORMAT x ENCODE y (...)`, in any order."""
    hint = hint or f"{owner} ... WITH (connector = '...', ...)"
    settings: tuple[Setting, ...] | None = None
    extra: tuple[Setting, ...] = ()
    row_format = encoding = None
    while not p.done:
        at = p.index
        if settings is None and p.take("WITH"):
            settings = p.settings(extra)
        elif encoding is None and p.take("ROW", "FORMAT"):
            word = p.label("a format such as JSON")
            head, _, tail = word.rpartition("_")
            row_format, encoding = (head, tail) if head in _ROW_FORMATS else (None, word)
        elif row_format is None and encoding is None and p.take("FORMAT"):
            row_format = p.label(f"one of {', '.join(_ROW_FORMATS)}")
            p.expect("ENCODE", hint="FORMAT PLAIN ENCODE JSON")
            encoding = p.label("a format such as JSON")
            extra = p.settings(settings or ()) if p.found() == "'('" else ()
        else:
            p.unexpected(at, hint=hint)
    if settings is None:
        p.fail(f"{owner} needs WITH (...)", hint=hint)
    return (*settings, *extra), row_format, encoding


def _columns(p: Parser) -> tuple[tuple[Column, ...], s.Watermark | None]:
    columns: dict[str, Column] = {}
    watermark: s.Watermark | None = None
    p.expect("(")
    while not p.take(")"):
        at = p.index
        if p.take("WATERMARK", "FOR"):
            if watermark is not None:
                p.fail("there is a watermark already", at)
            column = p.name("a column")
            p.expect("AS")
            watermark = s.Watermark(column, p.written_expression())
        elif p.peek() in _CONSTRAINTS and not p.peek(1):
            p.fail(f"Penstock takes no {p.peek()} here", hint="a sink names its key: WITH (merge_on = 'id')")
        else:
            declared = _column(p)
            if declared.name.lower() in columns:
                p.fail(f"column '{declared.name}' is declared twice", at, code="duplicate-column")
            columns[declared.name.lower()] = declared
        if not p.take(",") and p.found() != "')'":
            p.fail(f"expected , or ) in the list of columns, found {p.found()}")
    if not columns:
        p.fail("a list of columns cannot be empty", p.index - 1, hint="without one, columns are discovered")
    return tuple(columns.values()), watermark


def _column(p: Parser) -> Column:
    name = p.name("a column's name")
    at = p.index
    type_ = p.column_type()
    if type_ is None:
        hint = did_you_mean(p.peek(), _TYPES) if p.peek() else "every column has a type: id BIGINT"
        hint = "such as ARRAY<INT>, MAP<STRING, INT>, STRUCT<a: INT>" if p.peek() in _TYPES else hint
        p.fail(f"expected the type of column '{name}', found {p.found()}", at, hint=hint)
    nullable = not p.take("NOT", "NULL")
    p.take("NULL")
    if p.take("COMMENT") and p.string() is None:
        p.fail(f"expected a comment in quotes, found {p.found()}")
    if p.peek() in _CONSTRAINTS:
        p.fail(f"Penstock takes no {p.peek()} here", hint="a sink names its key: WITH (merge_on = 'id')")
    return Column(name, type_, nullable)
