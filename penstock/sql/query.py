"""A parsed query -> `Query`: its relations, its names, and the edits that make it Spark's.

What Spark lacks is written over, a word here and there, so that everything else stays as it was:

- `a -> 'b' ->> 'c'` becomes `get_json_object(a, '$.b.c')`, and so does `JSON_EXTRACT(a, '$.b.c')`;
- `JSON_OBJECT('k', v, ...)` becomes `named_struct('k', v, ...)`: a struct nests in a JSON message as an
  object, where `to_json` would give quoted text;
- `TUMBLE(ts, size)` and `HOP(ts, slide, size)` become `window(ts, size)` and `window(ts, size, slide)`,
  and their `_START` and `_END` the fields of that window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.casts import find_failed_cast
from penstock.sql.cursor import Fault, interval_text
from penstock.sql.dialect import Parser
from penstock.sql.filters import filters_of
from penstock.sql.statements import AfterValue, Edit, Query, Relation, Star

_RENAMED = {"json_extract": "get_json_object", "json_object": "named_struct"}
_WINDOWS = {f"{kind}{field}": (kind, field.replace("_", ".")) for kind in ("tumble", "hop")
            for field in ("", "_start", "_end")}  # fmt: skip
_ALL_COLUMNS = {TokenType.NATURAL, TokenType.PIVOT, TokenType.PIPE_GT}
"""Without a star, these use every column: a pivot groups by those it does not name."""


_ENDS = {
    TokenType.STRING,
    TokenType.NUMBER,
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.R_PAREN,
    TokenType.END,
}
"""Behind these, a name is that of a column."""

QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def at_query(parser: Parser) -> bool:
    return parser.peek() in QUERY_WORDS or parser.found() == "'('"


def read_query(parser: Parser, *, owns_with: bool = False) -> Query:
    """Reads the query at the cursor."""
    first = parser.index
    if not at_query(parser):
        parser.fail(f"expected SELECT, found {parser.found()}")
    node = parser.query(owns_with=owns_with)
    return _Reading(parser, node, first, parser.index).query()


class _Reading:
    def __init__(self, parser: Parser, node: exp.Expr, first: int, stop: int) -> None:
        self.parser = parser
        self.sql = parser.sql
        self.tokens = parser.tokens
        self.first, self.stop = first, stop
        self.base = self.tokens[first].start
        self.index = {token.start: i for i, token in enumerate(self.tokens)}
        self.node = node
        self.nodes = list(node.walk())
        parser.note_names(node)
        self.tables = [table for table in self._find(exp.Table) if self._is_relation(table)]
        self.tables.sort(key=lambda table: self._span(table)[0])
        self.cuts: list[tuple[int, int]] = [t.meta["cut"] for t in self.tables if "cut" in t.meta]
        self.names = frozenset(self._names())
        self.edits = [Edit(start, end, "") for start, end in self.cuts]

    def query(self) -> Query:
        self._refuse_quoted_names()
        relations = tuple(self._relation(table) for table in self.tables)
        self._edit_json_arrows()
        self._edit_functions()
        return Query(
            text=self.parser.raw(self.first, self.stop),
            at=self.parser.place(self.first),
            relations=relations,
            edits=tuple(_joined(self.edits, self.base)),
            names=self.names,
            star=self._uses_all_columns(),
            stars=tuple(self._stars()),
            after=tuple(self._after_values()),
            failed_cast=find_failed_cast(self.node, len(relations), self.sql, self.tokens, self.edits),
        )

    def _find(self, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
        return (node for node in self.nodes if isinstance(node, kind))

    # Relations.

    def _is_relation(self, table: exp.Expr) -> bool:
        parts = table.parts if isinstance(table, exp.Table) else []
        if not parts or not all(isinstance(p, exp.Identifier) and self.parser.is_written(p) for p in parts):
            return False
        return len(parts) > 1 or self._is_uri(table) or not _is_cte(table)

    def _span(self, table: exp.Expr) -> tuple[int, int]:
        assert isinstance(table, exp.Table)
        return table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1

    def _is_uri(self, table: exp.Expr) -> bool:
        return self.sql[self._span(table)[0]] in "'\""

    def _written(self, identifier: exp.Expr) -> str:
        """An identifier as it was written, without backticks."""
        token = self.tokens[self.index[identifier.meta["start"]]]
        quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        return token.text if quoted else _raw(self.sql, token)

    def _relation(self, table: exp.Expr) -> Relation:
        assert isinstance(table, exp.Table)
        start, end = self._span(table)
        alias = self._alias(table)
        name = ".".join(self._written(part) for part in table.parts)
        if not name.strip():
            raise Fault("expected a URI, found an empty string", start, end)
        if alias is None and not self._is_uri(table):
            alias = self._forced_alias(table, start, name)
        return Relation(
            name=name,
            is_uri=self._is_uri(table),
            settings=table.meta.get("settings", ()),
            at=self.parser.place(self.index[start], self.index[table.parts[-1].meta["start"]] + 1),
            start=start - self.base,
            end=end - self.base,
            alias=alias,
            filters=filters_of(table, alias or name),
        )

    def _alias(self, table: exp.Expr) -> str | None:
        alias = table.args.get("alias")
        return self._written(alias.this) if isinstance(alias, exp.TableAlias) and alias.this else None

    def _forced_alias(self, table: exp.Expr, start: int, name: str) -> str | None:
        """Where Spark takes no alias right behind the name: in TABLE t, and before a TABLESAMPLE."""
        label = name.rpartition(".")[2]
        sample = table.args.get("sample")
        if sample is not None:
            self._insert(sample.meta["stop"], f" AS `{label.replace('`', '``')}`")
            return label
        before = self.tokens[self.index[start] - 1]
        return label if before.token_type == TokenType.TABLE else None

    def _refuse_quoted_names(self) -> None:
        parts = {id(part) for table in self._find(exp.Table) if isinstance(table, exp.Table)
                 for part in table.parts if len(table.parts) == 1}  # fmt: skip
        for node in self._find(exp.Identifier):
            start = node.meta.get("start")
            if start is not None and self.sql[start] in "'\"" and id(node) not in parts:
                hint = "write the name bare, or in `backticks`"
                raise Fault("a name cannot be a string", start, node.meta["end"] + 1, hint=hint)

    # What it uses.

    def _names(self) -> Iterator[str]:
        for i in range(self.first, self.stop):
            token = self.tokens[i]
            if any(start <= token.start < end for start, end in self.cuts):
                continue
            behind_dot = i > self.first and self.tokens[i - 1].token_type in (TokenType.DOT, TokenType.COLON)
            if token.token_type == TokenType.IDENTIFIER:
                yield token.text.lower()
            elif token.token_type in Parser.ID_VAR_TOKENS or behind_dot:
                yield _raw(self.sql, token).lower()

    def _uses_all_columns(self) -> bool:
        if any(token.token_type in _ALL_COLUMNS for token in self.tokens[self.first : self.stop]):
            return True
        if any(_called(node) == "identifier" for node in self._find(exp.Anonymous)):
            return True
        return any(_called(star.parent) != "count" for star in self._find(exp.Star))

    # Edits.

    def _insert(self, at: int, text: str) -> None:
        self.edits.append(Edit(at, at, text))

    def _replace(self, first: int, stop: int, text: str) -> None:
        self.edits.append(Edit(self.tokens[first].start, self.tokens[stop - 1].end + 1, text))

    def _edit_json_arrows(self) -> None:
        for node in self._find(exp.JSONBExtract):
            if isinstance(node.parent, exp.JSONBExtract) and node.arg_key == "this":
                continue
            chain = [node]
            while isinstance(chain[-1].this, exp.JSONBExtract):
                chain.append(chain[-1].this)
            chain.reverse()
            path = "$" + "".join(self._step(link.meta["key"]) for link in chain)
            self._insert(self.tokens[chain[0].meta["operand"]].start, "get_json_object(")
            self._replace(chain[0].meta["operator"], node.meta["key"] + 1, f", {_literal(path)})")

    def _step(self, key: int) -> str:
        token = self.tokens[key]
        if token.token_type == TokenType.NUMBER and token.text.isdigit():
            return f"[{token.text}]"
        if token.token_type == TokenType.STRING and token.text.startswith("$"):
            return token.text[1:]
        if token.token_type == TokenType.STRING and re.fullmatch(r"\w+", token.text):
            return f".{token.text}"
        if token.token_type != TokenType.STRING or not re.fullmatch(r"[^'?]+", token.text):
            self.parser.fail("this is not the key of a JSON object, nor the number of an item", key)
        return f"['{token.text}']"

    def _edit_functions(self) -> None:
        for node in self._find(exp.Anonymous):
            name = _called(node)
            if "start" in node.meta and (name in _RENAMED or name in _WINDOWS):
                at = self.index[node.meta["start"]]
                arguments, close = self._arguments(at)
                if name in _WINDOWS:
                    self._edit_window(at, name, arguments, close)
                else:
                    self._edit_json_function(at, name, arguments)

    def _arguments(self, at: int) -> tuple[list[tuple[int, int]], int]:
        """The token spans of a call's arguments, and the index of its closing bracket."""
        depth, begin, spans = 0, at + 2, []
        for i in range(at + 1, self.stop):
            kind = self.tokens[i].token_type
            depth += (kind in (TokenType.L_PAREN, TokenType.L_BRACKET)) - (
                kind in (TokenType.R_PAREN, TokenType.R_BRACKET)
            )
            if depth == 0 or (depth == 1 and kind == TokenType.COMMA):
                spans.append((begin, i))
                begin = i + 1
            if depth == 0:
                return [span for span in spans if span[0] < span[1]], i
        return [], self.stop - 1

    def _edit_json_function(self, at: int, name: str, arguments: list[tuple[int, int]]) -> None:
        if name == "json_extract" and len(arguments) != 2:
            self.parser.fail(
                "JSON_EXTRACT takes a text and a path", at, hint="JSON_EXTRACT(data, '$.user.id')"
            )
        if name == "json_object" and (not arguments or len(arguments) % 2):
            self.parser.fail(
                "JSON_OBJECT takes keys and values in turn", at, hint="JSON_OBJECT('id', id, 'name', name)"
            )
        self._replace(at, at + 1, _RENAMED[name])

    def _edit_window(self, at: int, name: str, arguments: list[tuple[int, int]], close: int) -> None:
        kind, field = _WINDOWS[name]
        form = "time, size" if kind == "tumble" else "time, slide, size"
        if len(arguments) != form.count(",") + 1:
            hint = "GROUP BY " + ("TUMBLE(ts, INTERVAL '5' MINUTE)" if kind == "tumble"
                                  else "HOP(ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)")  # fmt: skip
            self.parser.fail(f"{name.upper()} takes ({form})", at, hint=hint)
        lengths = [self._length(*span) for span in arguments[1:]]
        self._replace(at, at + 1, "window")
        for span, length in zip(arguments[1:], reversed(lengths), strict=True):
            self._replace(*span, length)
        if field:
            self._insert(self.tokens[close].end + 1, field)

    def _length(self, first: int, stop: int) -> str:
        if stop == first + 1 and self.tokens[first].token_type == TokenType.STRING:
            return self.parser.raw(first, stop)
        text = interval_text(self.tokens[first:stop])
        if text is None:
            self.parser.fail("expected a length such as INTERVAL '5' MINUTE", first)
        return _literal(text)

    def _after_values(self) -> Iterator[AfterValue]:
        if self.tokens[self.first].token_type != TokenType.SELECT:
            return
        for first, stop in self._projections():
            end = self._before_alias(first, stop)
            read = [
                t
                for t in self.tokens[first:end]
                if t.token_type == TokenType.VAR and t.text.lower() == "after"
            ]
            if not read or end == stop:
                continue
            begin, finish = self.tokens[first].start, self.tokens[end - 1].end + 1
            edits = [edit for edit in self.edits if begin <= edit.start and edit.end <= finish]
            edits += [Edit(token.start, token.end + 1, "before") for token in read]
            otherwise = _edited(self.sql[begin:finish], _joined(edits, begin))
            name = self.tokens[stop - 1].text.lower()
            yield AfterValue(name, begin - self.base, finish - self.base, otherwise)

    def _before_alias(self, first: int, stop: int) -> int:
        """Where an expression ends whose column is given a name."""
        if stop - first < 2 or self.tokens[stop - 1].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            return stop
        before = self.tokens[stop - 2].token_type
        if before == TokenType.ALIAS:
            return stop - 2
        return stop - 1 if before in _ENDS else stop

    def _projections(self) -> Iterator[tuple[int, int]]:
        """The token spans of what stands between SELECT and FROM."""
        depth, begin = 0, self.first + 1
        for i in range(begin, self.stop):
            kind = self.tokens[i].token_type
            depth += (kind in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)) - (
                kind in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
            )
            if depth == 0 and kind in (TokenType.COMMA, TokenType.FROM):
                yield begin, i
                begin = i + 1
            if depth == 0 and kind == TokenType.FROM:
                return

    def _stars(self) -> Iterator[Star]:
        for star in self._find(exp.Star):
            if "start" not in star.meta or _called(star.parent) == "count":
                continue
            at = self.index[star.meta["start"]]
            end, listed = self.tokens[at].end + 1, None
            if star.args.get("except_"):
                listed = frozenset(e.name.lower() for e in star.args["except_"])
                if self.tokens[at + 2].token_type == TokenType.L_PAREN:
                    _, close = self._arguments(at + 1)
                    end = self.tokens[close].start
            relations = tuple(self.tables.index(table) for table in self._meant(star))
            yield Star(end - self.base, listed, relations)

    def _meant(self, star: exp.Expr) -> list[exp.Table]:
        """The relations that a star stands for."""
        tables = self._sources(star.find_ancestor(exp.Select))
        if not (isinstance(star.parent, exp.Column) and star.parent.table):
            return tables
        owner = star.parent.table.lower()
        return [t for t in tables if (self._alias(t) or self._written(t.parts[-1])).lower() == owner]

    def _sources(self, select: exp.Expr | None) -> list[exp.Table]:
        if select is None:
            return []
        joins = [j for j in select.args.get("joins") or () if j.args.get("kind") not in ("SEMI", "ANTI")]
        roots = [node for node in (select.args.get("from_"), *joins) if node is not None]
        inner = (exp.Select, exp.SetOperation)
        found = {id(n) for root in roots for n in root.walk(prune=lambda n: isinstance(n, inner))}
        return [t for t in self.tables if id(t) in found and isinstance(t, exp.Table)]


def _edited(text: str, edits: Iterable[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _raw(sql: str, token: Token) -> str:
    return sql[token.start : token.end + 1]


def _called(node: exp.Expr | None) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _is_cte(table: exp.Expr) -> bool:
    """Whether a bare name means a WITH of this query: one that stands before it, or around it."""
    child, name = table, table.name.lower()
    for parent in _ancestors(table):
        with_ = parent.args.get("with_")
        if with_ is not None:
            visible = list(with_.expressions)
            if isinstance(child, exp.CTE):
                at = next((i for i, cte in enumerate(visible) if cte is child), len(visible))
                visible = visible[: at + 1 if with_.args.get("recursive") else at]
            if any(cte.alias.lower() == name for cte in visible):
                return True
        if not isinstance(parent, exp.With):
            child = parent
    return False


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node


def _joined(edits: Iterable[Edit], base: int) -> Iterator[Edit]:
    """In order, relative to `base`; what is put in front of an edit becomes a part of it."""
    before: Edit | None = None
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if before is not None and before.end == edit.start == before.start:
            before = Edit(before.start, edit.end, before.text + edit.text)
            continue
        if before is not None:
            yield Edit(before.start - base, before.end - base, before.text)
        before = edit
    if before is not None:
        yield Edit(before.start - base, before.end - base, before.text)
