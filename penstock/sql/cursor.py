"""A cursor over the tokens of one statement: words, names, options, and where they stand.

It is sqlglot's parser, so that a statement of ours can hand over to it for a query, an expression or
a type, and go on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place
from penstock.options import Setting, Value
from penstock.sql.places import place_of

_WORD = re.compile(r"[^\W\d]\w*|\d+[^\W\d]\w*")
_NUMBER = re.compile(r"[+-]?(\d+)?(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
_TYPES = {
    exp.DType[name]
    for name in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "TEXT",
                 "VARCHAR", "CHAR", "BINARY", "VARBINARY", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ",
                 "TIMESTAMPNTZ", "INTERVAL", "ARRAY", "MAP", "STRUCT", "VARIANT")
}  # fmt: skip
_ENDS_WORD = {TokenType.COMMA, TokenType.EQ, TokenType.STRING, TokenType.L_PAREN, TokenType.L_BRACKET,
              TokenType.L_BRACE, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}  # fmt: skip


class Fault(ParseError):
    """What is wrong with a text, and where: at `sql[start:end]`."""

    def __init__(
        self, message: str, start: int, end: int, *, code: str = "syntax", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.code = code
        self.hint = hint


def interval_text(tokens: Sequence[Token]) -> str | None:
    """`INTERVAL '5' MINUTE`, `INTERVAL 5 MINUTES`, `INTERVAL '5 minutes'` -> `5 minutes`."""
    words = " ".join(token.text.lower() for token in tokens[1:]).split()
    if tokens[0].token_type != TokenType.INTERVAL or not words or len(words) % 2:
        return None
    parts = []
    for count, unit in zip(words[::2], words[1::2], strict=True):
        unit = unit.removesuffix("s")
        if unit not in _UNITS or not re.fullmatch(r"-?\d+(\.\d+)?", count):
            return None
        parts.append(f"{count} {unit}" if count == "1" else f"{count} {unit}s")
    return " ".join(parts)


class Cursor(SparkParser):
    """Reads one statement from its first token to its last."""

    source = ""
    keywords: set[int]
    """Where the words stand that were read as keywords, also those that could be names elsewhere."""
    names: set[int]
    """Where the words stand that were read as names, functions or options."""

    def start(self, tokens: list[Token], sql: str, source: str) -> None:
        """Puts the cursor on the first token of a statement; positions are those in all of `sql`."""
        self.reset()
        self.sql, self.source = sql, source
        self.keywords, self.names = set(), set()
        self._chunks = [tokens]
        self._advance_chunk()

    @property
    def index(self) -> int:
        return int(self._index)

    @property
    def tokens(self) -> list[Token]:
        return self._tokens

    @property
    def done(self) -> bool:
        return not self._curr

    def raw(self, first: int, stop: int) -> str:
        """What was written from token `first` up to, and without, token `stop`."""
        return self.sql[self._tokens[first].start : self._tokens[stop - 1].end + 1] if first < stop else ""

    def place(self, first: int, stop: int | None = None) -> Place:
        tokens = self._tokens
        last = tokens[min(stop or first + 1, len(tokens)) - 1]
        return place_of(self.source, self.sql, tokens[first].start, last.end + 1)

    def upper(self, index: int) -> str:
        """The word at `index`, or the words of one token such as GROUP BY; empty for anything else."""
        word = self.raw(index, index + 1) if index < len(self._tokens) else ""
        return " ".join(word.upper().split()) if _WORD.match(word) else ""

    def peek(self, ahead: int = 0) -> str:
        return self.upper(self.index + ahead)

    def skip(self) -> None:
        """Passes over a keyword."""
        self.keywords.add(self._curr.start)
        self._advance()

    def to_end(self) -> None:
        self._retreat(len(self._tokens))

    def take(self, *words: str) -> bool:
        return bool(self._match_text_seq(*words))

    def _match_text_seq(self, *texts: str, advance: bool = True) -> bool:
        first = self.index
        matched = bool(super()._match_text_seq(*texts, advance=advance))
        self.keywords.update(token.start for token in self._tokens[first : self.index])
        return matched

    def _match_texts(self, texts: Any, advance: bool = True) -> bool:
        first = self.index
        matched = bool(super()._match_texts(texts, advance))
        self.keywords.update(token.start for token in self._tokens[first : self.index])
        return matched

    def note_names(self, node: exp.Expr) -> None:
        """Remembers where the names in a part of a statement stand."""
        named = (found for found in node.walk() if isinstance(found, (exp.Identifier, exp.Anonymous)))
        self.names.update(found.meta["start"] for found in named if self.is_written(found))

    def is_written(self, node: exp.Expr) -> bool:
        """Whether a name stands in the text; for `|>`, sqlglot makes up some."""
        written = self.sql[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else ""
        return written[:1] in ("'", '"', "`") or (written != "" and written.lower() == node.name.lower())

    def expect(self, *words: str, hint: str | None = None) -> None:
        for word in words:
            if not self.take(word):
                self.fail(f"expected {word}, found {self.found()}", hint=hint)

    def unexpected(self, first: int | None = None, *, hint: str | None = None) -> NoReturn:
        """Raises for a token that fits nowhere, by default the one at the cursor."""
        message = "the statement ends too soon" if self.done else f"unexpected {self.found()}"
        self.fail(message, first, hint=hint)

    def found(self) -> str:
        """The token at the cursor, for a message."""
        if self.done:
            return "the end of the statement"
        text = self.raw(self.index, self.index + 1)
        return text if text[:1] in "'\"`" else f"'{text}'"

    def fail(
        self, message: str, first: int | None = None, *, code: str = "syntax", hint: str | None = None
    ) -> NoReturn:
        """Raises at token `first`, by default the one at the cursor."""
        index = self.index if first is None else first
        if index < len(self._tokens):
            token = self._tokens[index]
            raise Fault(message, token.start, token.end + 1, code=code, hint=hint)
        end = self._tokens[-1].end + 1 if self._tokens else 0
        raise Fault(message, end, end + 1, code=code, hint=hint)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        index = self._tokens.index(token) if token in self._tokens else self.index
        if message.startswith("Expecting "):
            message = f"expected {message.removeprefix('Expecting ')}, found {self.found()}"
        elif message.startswith("Found multiple"):
            message = f"{message[:1].lower()}{message[1:]}"
        else:
            self.unexpected(index)
        self.fail(message, index)

    def name(self, what: str) -> str:
        """`a`, `a.b`, with or without backticks."""
        first = self.index
        parts = []
        while True:
            token = self._curr
            if token.token_type not in self.ID_VAR_TOKENS:
                is_string = token.token_type == TokenType.STRING
                hint = "write it bare, or in `backticks`" if is_string else None
                hint = "a keyword as a name stands in `backticks`" if self.peek() else hint
                self.fail(f"expected {what}, found {self.found()}", hint=hint)
            quoted = token.token_type == TokenType.IDENTIFIER
            parts.append(token.text if quoted else self.raw(self.index, self.index + 1))
            self.names.add(token.start)
            self._advance()
            if not self._match(TokenType.DOT):
                break
        if not all(parts):
            self.fail(f"expected {what}, found an empty one", first)
        return ".".join(parts)

    def string(self) -> str | None:
        """The string at the cursor, if there is one."""
        return str(self._prev.text) if self._match(TokenType.STRING) else None

    def label(self, what: str) -> str:
        """A word, bare or quoted, in upper case."""
        word = self.string()
        return (self.name(what) if word is None else word).upper()

    def written_expression(self) -> str:
        """An expression, as it was written."""
        first = self.index
        node = self._parse_disjunction()
        if node is None:
            self.fail(f"expected an expression, found {self.found()}", first)
        self.note_names(node)
        return self.raw(first, self.index)

    def column_type(self) -> str | None:
        """Spark's name for the type at the cursor; None when there is no type."""
        first = self.index
        node = self._try_parse(lambda: self._parse_types(schema=True, allow_identifiers=False))
        if not isinstance(node, exp.DataType):
            return None
        for part in node.find_all(exp.DataType):
            if part.this in (exp.DType.JSON, exp.DType.JSONB):
                part.set("this", exp.DType.TEXT)
            elif part.this not in _TYPES and not isinstance(part.this, (exp.Interval, exp.Var)):
                self._retreat(first)
                return None
        self.note_names(node)
        # sqlglot writes keywords in upper case, also where they are the names of fields.
        for field in node.find_all(exp.Identifier):
            if "start" in field.meta and not field.args.get("quoted"):
                field.set("this", self.sql[field.meta["start"] : field.meta["end"] + 1])
        return node.sql(dialect=self.dialect)

    # WITH (...).

    def settings(self, known: Sequence[Setting] = ()) -> tuple[Setting, ...]:
        """A list `(key = value, ...)`; keys that are among `known` count as given twice."""
        self.expect("(")
        settings: list[Setting] = []
        while not self._match(TokenType.R_PAREN):
            first = self.index
            key, at = self.key()
            if not self._match(TokenType.EQ):
                hint = "WITH (key = 'value', ...)"
                self.fail(f"expected = behind the option '{key}', found {self.found()}", hint=hint)
            if any(key.lower() == other.key.lower() for other in (*known, *settings)):
                self.fail(f"option '{key}' is given twice", first, code="duplicate-option")
            settings.append(Setting(key, self.value(), at))
            if not self._match(TokenType.COMMA) and self._curr.token_type != TokenType.R_PAREN:
                self.fail(f"expected , or ) behind the option '{key}', found {self.found()}")
            self.names.update(token.start for token in self._tokens[first : self.index])
        return tuple(settings)

    def key(self) -> tuple[str, Place]:
        """The name of an option: bare, 'quoted' or "quoted", with dots if need be."""
        first = self.index
        if self._match(TokenType.STRING) or self._match(TokenType.IDENTIFIER):
            key = str(self._prev.text)
        else:
            self._run()
            key = self.raw(first, self.index)
        if not re.fullmatch(r"[\w.\-/:$*]+", key):
            self._retreat(first)
            self.fail(f"expected the name of an option, found {self.found()}")
        self.names.update(token.start for token in self._tokens[first : self.index])
        return key, self.place(first, self.index)

    def _run(self) -> None:
        """Passes over tokens that stand together: `properties.bootstrap.servers`, `5s`, `exactly-once`."""
        while not self.done and self._curr.token_type not in _ENDS_WORD:
            self._advance()
            if self.done or self._curr.start > self._prev.end + 1:
                break

    def value(self) -> Value:
        """A string, a number, true, false, null, an interval, or a bare word."""
        first = self.index
        if self._match(TokenType.STRING):
            return str(self._prev.text)
        if self.peek() == "INTERVAL":
            while not self.done and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                self._advance()
            text = interval_text(self._tokens[first : self.index])
            if text is None:
                self.fail("expected an interval such as INTERVAL '5' MINUTE", first)
            return text
        self._run()
        text = self.raw(first, self.index)
        if not text:
            self.fail(f"expected a value, found {self.found()}", hint="a string, a number, true or false")
        if text.upper() in ("TRUE", "FALSE", "NULL"):
            return {"TRUE": True, "FALSE": False, "NULL": None}[text.upper()]
        if re.search(r"\d", text) and (match := _NUMBER.fullmatch(text)):
            return float(text) if match[2] or match[3] else int(text)
        return text
