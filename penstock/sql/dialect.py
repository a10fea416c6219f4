"""A sqlglot dialect: Spark's SQL, plus our clauses inside a query.

The parser is used to check a query and to find its structure, never to print SQL again: Spark gets
the text that was written. So functions stay unknown calls (sqlglot would count their arguments and
rename them), and what we need later is kept as positions in `meta`:

- `'uri' WITH (...)` and `name WITH (...)`: `meta["settings"]` and `meta["cut"]` of the table;
- `a -> 'k'` and `a ->> 'k'`: a `JSONBExtract` with `meta["operand"]`, `meta["operator"]`, `meta["key"]`;
- `TABLESAMPLE (...)`: `meta["stop"]`, since Spark wants the alias behind it;
- `CAST(a AS t)` and `a::t`: `meta["cast"]`, the tokens where it begins, of AS or `::`, and behind it;
- `WHERE ...`: `meta["where"]`, the tokens where its condition begins, and behind it.

A `->` is Spark's lambda only where a higher-order function takes one; everywhere else it reads JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.cursor import Cursor, Fault

T = TypeVar("T")

LAMBDA_FROM = {"transform": 1, "filter": 1, "exists": 1, "forall": 1, "array_sort": 1, "transform_keys": 1,
               "transform_values": 1, "map_filter": 1, "aggregate": 2, "reduce": 2, "zip_with": 2,
               "map_zip_with": 2}  # fmt: skip
"""The functions that take a lambda, and the first argument (from 0) that may be one."""

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


class Tokenizer(Spark.Tokenizer):
    # Spark 4 reads 'it''s' as one string.
    STRING_ESCAPES = ["\\", "'", '"']
    KEYWORDS = {**Spark.Tokenizer.KEYWORDS, "INT8": TokenType.BIGINT}
    # The text behind SHOW or EXPLAIN is ours to read.
    COMMANDS: ClassVar[set[TokenType]] = set()


_NO_TEXT = re.compile("[\0\ud800-\udfff]")

# Templates are not SQL.
del Tokenizer._COMMENTS["{#"]


def tokenize(sql: str) -> list[Token]:
    """All tokens of a text; a `->` that reads JSON becomes a HASH_ARROW."""
    wrong = _NO_TEXT.search(sql)
    if wrong is not None:
        what = "a NUL byte" if wrong[0] == "\0" else "a byte that is no UTF-8, or half of a character,"
        raise Fault(f"{what} is not text", wrong.start(), wrong.end(), code="bad-character")
    tokenizer = Penstock().tokenizer()
    try:
        tokens = tokenizer.tokenize(sql)
    except TokenError:
        start = min(tokenizer._core._start, len(sql) - 1)
        if sql.startswith("/*", start):
            _comment_end(sql, start)
        what = "name" if sql[start] == "`" else "string"
        raise Fault(f"this {what} is not closed", start, len(sql), code="unterminated") from None
    # Only the last one can be open, and this raises for it.
    list(comments(sql, tokens[-1].end + 1 if tokens else 0, len(sql)))
    _mark_json_arrows(tokens)
    return _retyped(tokens)


def comments(sql: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans of the comments in `sql[start:end]`, which holds no tokens."""
    while start < end:
        if sql.startswith("--", start):
            stop = re.compile(r"[\r\n]|\Z").search(sql, start, end)
            close = stop.start() if stop else end
        elif sql.startswith("/*", start):
            close = _comment_end(sql, start)
        else:
            start += 1
            continue
        yield start, close
        start = close


def _comment_end(sql: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    raise Fault("this comment is not closed", start, len(sql), code="unterminated", hint="close it with */")


def _mark_json_arrows(tokens: Sequence[Token]) -> None:
    # For each open bracket: the function it belongs to, the argument's number, whether that is a lambda.
    stack: list[tuple[str, int, bool]] = [("", 0, False)]
    for i, token in enumerate(tokens):
        name, argument, is_lambda = stack[-1]
        if token.token_type in _OPEN:
            stack.append((tokens[i - 1].text.lower() if i else "", 0, False))
        elif token.token_type in _CLOSE:
            if len(stack) > 1:
                stack.pop()
        elif token.token_type == TokenType.COMMA:
            stack[-1] = (name, argument + 1, False)
        elif token.token_type == TokenType.SEMICOLON:
            stack = [("", 0, False)]
        elif token.token_type == TokenType.ARROW:
            if is_lambda or argument < LAMBDA_FROM.get(name, argument + 1):
                token.token_type = TokenType.HASH_ARROW
            stack[-1] = (name, argument, True)


def _retyped(tokens: list[Token]) -> list[Token]:
    """Settles what sqlglot's tokenizer reads otherwise than Spark's."""
    operands = (TokenType.NUMBER, TokenType.L_PAREN, TokenType.VAR, TokenType.IDENTIFIER)
    kept: list[Token] = []
    for i, token in enumerate(tokens):
        following = tokens[i + 1].token_type if i + 1 < len(tokens) else TokenType.SENTINEL
        is_call = token.token_type == TokenType.WINDOW and following == TokenType.L_PAREN
        is_column = token.token_type == TokenType.OFFSET and following not in (*operands[:2], TokenType.COLON)
        if is_call or is_column:
            token.token_type = TokenType.VAR
        before = [(t.token_type, t.text.lower()) for t in kept[-2:]]
        # a >>> b; behind the brackets of ARRAY<ARRAY<ARRAY<INT>>> no operand stands.
        if token.token_type == TokenType.GT and following in operands and before == [(TokenType.GT, ">")] * 2:
            token = Token(TokenType.CARET, ">>>", start=kept[-2].start, end=token.end)
            del kept[-2:]
        # X '1F'
        if token.token_type == TokenType.STRING and before[-1:] == [(TokenType.VAR, "x")]:
            token = Token(TokenType.HEX_STRING, token.text, start=kept.pop().start, end=token.end)
        kept.append(token)
    return kept


def _json_arrow(self: Parser, this: exp.Expr, key: exp.Expr) -> exp.Expr:
    if not isinstance(key, exp.Literal) or self._tokens[self._index - 2].token_type not in (
        TokenType.HASH_ARROW,
        TokenType.DARROW,
    ):
        hint = "such as after->>'id' or items->0"
        self.fail("the key behind -> must be a string or a number", self.index - 1, hint=hint)
    node = self.expression(exp.JSONBExtract(this=this, expression=key))
    node.meta.update(operand=self._operand, operator=self._index - 2, key=self._index - 1)
    return node


def _colon_cast(self: Parser, this: exp.Expr, kind: exp.Expr) -> exp.Expr:
    node = self.build_cast(strict=self.STRICT_CAST, this=this, to=kind)
    before = range(self.index - 1, self._operand, -1)
    operator = next(i for i in before if self._tokens[i].token_type == TokenType.DCOLON)
    node.meta["cast"] = self._operand, operator, self.index
    return node


class Parser(Cursor):
    """Reads queries, with our clauses in them."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM")
    }
    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr]]] = {}
    COLUMN_OPERATORS = {
        TokenType.DOT: SparkParser.COLUMN_OPERATORS[TokenType.DOT],
        TokenType.DCOLON: _colon_cast,
        TokenType.HASH_ARROW: _json_arrow,
        TokenType.DARROW: _json_arrow,
    }
    COLON_IS_VARIANT_EXTRACT = True
    SUPPORTS_TABLE_QUERY = True

    _operand = 0
    _table: exp.Expr | None = None
    _owns_with = False

    def query(self, *, owns_with: bool = False) -> exp.Expr:
        """Reads a query; `owns_with`: a WITH at the very end, behind a bare name, is the statement's."""
        first = self.index
        self._owns_with = owns_with
        node = self._parse_statement()
        if not isinstance(node, (exp.Query, exp.Values)):
            self.fail(f"expected a SELECT, found {self.found()}", first)
        return node

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        def item() -> T | None:
            found = parse_method()
            if found is None and sep in (self._prev.token_type, self._curr.token_type):
                self.unexpected()
            return found

        return super()._parse_csv(item, sep)

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        projections = super()._parse_projections()
        if not projections[0]:
            self.unexpected()
        return projections

    def _parse_join_parts(self) -> tuple[Token | None, Token | None, Token | None]:
        method, side, kind = super()._parse_join_parts()
        # Spark has no `a JOIN b JOIN c ON ... ON ...`, and without a method sqlglot would look for it,
        # in exponential time.
        return method or Token.var(""), side, kind

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        first = self.index
        join = super()._parse_join(*args, **kwargs)
        if join is None and self.index > first:
            self.unexpected()
        return join

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        group = super()._parse_group(skip_group_by_token)
        if group is not None and not any(value is not None and value != [] for value in group.args.values()):
            self.unexpected()
        return group

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        # In an expression, a type with brackets is a call: struct(...), decimal(...).
        if check_func and self._next.token_type in (TokenType.L_PAREN, TokenType.LT):
            return None
        return super()._parse_types(check_func, schema, allow_identifiers, with_collation)

    def _parse_into(self) -> None:
        return None

    def _parse_hint(self) -> None:
        self._match(TokenType.HINT)

    def _parse_table_parts(
        self, schema: bool = False, is_db_reference: bool = False, wildcard: bool = False, fast: bool = False
    ) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(schema, is_db_reference, wildcard, fast)
        if table is not None and not fast:
            self._table = table
            self._take_with()
        return table

    def _parse_table_hints(self) -> None:
        self._take_with()

    def _take_with(self) -> None:
        table = self._table
        if table is None or "settings" in table.meta or not isinstance(table.this, exp.Identifier):
            return
        if self.peek() != "WITH" or not self._match_pair(TokenType.WITH, TokenType.L_PAREN, advance=False):
            return
        first = self.index
        is_uri = self.sql[table.this.meta["start"]] in "'\""
        self._advance()
        settings = self.settings()
        if self._owns_with and not is_uri and (self.done or self.peek() in ("FORMAT", "ROW")):
            self._retreat(first)
            return
        table.meta["settings"] = settings
        table.meta["cut"] = (self._tokens[first].start, self._prev.end + 1)

    def _parse_table_sample(self, as_modifier: bool = False) -> exp.TableSample | None:
        sample = super()._parse_table_sample(as_modifier)
        if sample is not None:
            sample.meta["stop"] = self._prev.end + 1
        return sample

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        first = self.index
        node = super()._parse_cast(strict, safe)
        as_ = next((i for i in range(self.index - 1, first, -1) if self.upper(i) == "AS"), None)
        if safe is None and as_ is not None and self._curr.token_type == TokenType.R_PAREN:
            node.meta["cast"] = first - 2, as_, self.index + 1
        return node

    def _parse_where(self, skip_where_token: bool = False) -> exp.Where | None:
        first = self.index + (not skip_where_token)
        where = super()._parse_where(skip_where_token)
        if where is not None:
            where.meta["where"] = first, self.index
        return where

    def _from_here(self, parse: Callable[[], T]) -> T:
        outer, self._operand = self._operand, self.index
        try:
            return parse()
        finally:
            self._operand = outer

    def _parse_column(self) -> exp.Expr | None:
        return self._from_here(super()._parse_column)

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        return self._from_here(
            lambda: super(Parser, self)._parse_type(parse_interval, fallback_to_identifier)
        )


class Penstock(Spark):
    """Spark's dialect with our tokenizer and parser."""

    Tokenizer = Tokenizer
    Parser = Parser


def new_parser() -> Parser:
    parser = Penstock().parser(error_level=ErrorLevel.IMMEDIATE)
    assert isinstance(parser, Parser)
    return parser
