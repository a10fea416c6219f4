"""Which explicit CAST of a query fails on a row: an expression for Spark over the rows of its one relation.

`CAST(a AS INT)` fails on a row where `a` is not null, but `TRY_CAST(a AS INT)` is. What is found for a row
is the first such CAST and its value, in words; the empty text when WHERE leaves the row out; else null.

Only what is certain is looked at: one relation, and CASTs of its SELECT list and WHERE that are evaluated
for every row. Others, in a CASE or behind an OR for one, stay as they are, and stop the query when they fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.statements import Edit

_CONDITIONAL = (exp.Case, exp.If, exp.Coalesce, exp.In, exp.Lambda, exp.Filter, exp.Query, exp.TableSample)
_LAZY = {"if", "iff", "coalesce", "nvl", "nvl2", "ifnull", "nullif", "decode", "zeroifnull", "assert_true"}
"""Functions that do not evaluate all of their arguments; besides, those that begin with `try_`."""
_CHANGING = {"rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle",
             "monotonically_increasing_id", "spark_partition_id"}  # fmt: skip
"""Functions that give another value when a row is looked at again."""
_SHOWN = 200
"""Characters of a value that are told."""


@dataclass(frozen=True)
class _Cast:
    node: exp.Expr
    start: int
    """Of the whole of it, then of its operand and its type, as offsets in the text."""
    end: int
    operand: tuple[int, int]
    type: tuple[int, int]

    def edits(self) -> list[Edit]:
        """What makes a TRY_CAST of it."""
        if self.operand[0] > self.start:
            return [Edit(self.start, self.start, "TRY_")]
        between = Edit(self.operand[1], self.type[0], " AS ")
        return [Edit(self.start, self.start, "TRY_CAST("), between, Edit(self.end, self.end, ")")]


def find_failed_cast(
    node: exp.Expr, tables: int, sql: str, tokens: Sequence[Token], edits: Iterable[Edit]
) -> str | None:
    """The expression for a query over so many tables; `edits` make the text Spark's."""
    if tables != 1 or not isinstance(node, exp.Select) or not _is_plain(node):
        return None
    return _Check(node, sql, tokens, edits).expression()


def _is_plain(select: exp.Select) -> bool:
    """Whether its rows are those of one relation, looked at one by one."""
    inner = [found for found in select.walk() if found is not select and isinstance(found, exp.Query)]
    from_ = select.args.get("from_")
    table = from_.this if from_ is not None else None
    more = any(
        select.args.get(key) for key in ("with_", "joins", "laterals", "pivots", "operation_modifiers")
    )
    if inner or more or not isinstance(table, exp.Table):
        return False
    return not any(table.args.get(key) for key in ("sample", "joins", "laterals", "pivots", "when"))


class _Check:
    def __init__(self, select: exp.Select, sql: str, tokens: Sequence[Token], edits: Iterable[Edit]) -> None:
        self.select, self.sql, self.tokens = select, sql, tokens
        self.where: exp.Expr | None = select.args.get("where")
        # As they are evaluated: what stands inside of another comes before it.
        self.casts = sorted(self._casts(), key=lambda cast: cast.end)
        self.edits = list(edits)

    def expression(self) -> str | None:
        names = {n.name.lower() for n in self.select.walk() if isinstance(n, exp.Anonymous)}
        if not self.casts or names & _CHANGING:
            return None
        selected = [cast for cast in self.casts if not self._in_where(cast.node)]
        by_condition = [(span, [c for c in self.casts if _holds(span, c)]) for span in self._conditions()]
        # Those without a CAST first: a row that they leave out is out, however the others turn out.
        by_condition.sort(key=lambda pair: bool(pair[1]))
        steps = []
        for (start, end), casts in by_condition:
            steps += [self._failed(cast) for cast in casts]
            steps.append(f"WHEN ({self._text(start, end)}) IS NOT TRUE THEN ''")
        steps += [self._failed(cast) for cast in selected]
        return f"CASE {' '.join(steps)} END"

    def _failed(self, cast: _Cast) -> str:
        value = self._text(*cast.operand)
        tried = f"TRY_CAST({value} AS {self._text(*cast.type)})"
        told = _literal(f"{' '.join(self.sql[cast.start : cast.end].split())} fails on ")
        # A null inside a VARIANT is a null after the CAST, and no failure.
        fails = f"({value}) IS NOT NULL AND {tried} IS NULL AND typeof({value}) <> 'variant'"
        return f"WHEN {fails} THEN concat({told}, coalesce(left(TRY_CAST({value} AS STRING), {_SHOWN}), '?'))"

    def _text(self, start: int, end: int) -> str:
        """A piece of the query for Spark, with its CASTs as TRY_CASTs."""
        casts = [cast for cast in reversed(self.casts) if _holds((start, end), cast)]
        edits = [edit for cast in casts for edit in cast.edits()]
        edits += [edit for edit in self.edits if start <= edit.start and edit.end <= end]
        pieces, position = [], start
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            pieces += [self.sql[position : edit.start], edit.text]
            position = edit.end
        return "".join([*pieces, self.sql[position:end]])

    def _casts(self) -> Iterator[_Cast]:
        for node in self.select.walk():
            if "cast" not in node.meta or not self._is_certain(node):
                continue
            first, middle, stop = node.meta["cast"]
            start, end = self.tokens[first].start, self.tokens[stop - 1].end + 1
            if self.tokens[middle].token_type == TokenType.DCOLON:
                operand, kind = (first, middle), (middle + 1, stop)
            else:
                operand, kind = (first + 2, middle), (middle + 1, stop - 1)
            yield _Cast(node, start, end, self._span(*operand), self._span(*kind))

    def _span(self, first: int, stop: int) -> tuple[int, int]:
        return self.tokens[first].start, self.tokens[stop - 1].end + 1

    def _is_certain(self, node: exp.Expr) -> bool:
        """Whether it is evaluated for every row that comes to where it stands, from the row alone."""
        if any(isinstance(found, (exp.Window, exp.Query)) for found in node.walk()):
            return False
        child, parent = node, node.parent
        while parent is not None and parent is not self.select and parent is not self.where:
            lazy = isinstance(parent, exp.Anonymous) and (
                parent.name.lower() in _LAZY or parent.name.lower().startswith("try_")
            )
            behind = isinstance(parent, (exp.And, exp.Or)) and child is not parent.this
            if lazy or isinstance(parent, _CONDITIONAL) or (behind and not self._is_condition(child)):
                return False
            child, parent = parent, parent.parent
        if parent is self.select:
            return any(child is one for one in self.select.expressions)
        return parent is not None

    def _in_where(self, node: exp.Expr) -> bool:
        return self.where is not None and any(found is node for found in self.where.walk())

    def _is_condition(self, node: exp.Expr) -> bool:
        """Whether it is one of the conditions that WHERE joins by AND."""
        return self.where is not None and any(node is one for one in _all_of(self.where.this))

    def _conditions(self) -> list[tuple[int, int]]:
        """Where the conditions stand that WHERE joins by AND."""
        if self.where is None:
            return []
        first, stop = self.where.meta["where"]
        joined = isinstance(self.where.this, exp.And)
        ends = [first - 1, *(_ands(self.tokens, first, stop) if joined else ()), stop]
        return [self._span(before + 1, after) for before, after in pairwise(ends)]


def _ands(tokens: Sequence[Token], first: int, stop: int) -> Iterator[int]:
    """The ANDs that stand in no bracket, in no CASE and behind no BETWEEN."""
    opening = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
    closing = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
    depth = between = 0
    for i in range(first, stop):
        kind = tokens[i].token_type
        depth += (kind in opening) - (kind in closing)
        if depth == 0 and kind == TokenType.BETWEEN:
            between += 1
        elif depth == 0 and kind == TokenType.AND:
            if not between:
                yield i
            between = max(0, between - 1)


def _all_of(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _all_of(condition.this)
        yield from _all_of(condition.expression)
    else:
        yield condition


def _holds(span: tuple[int, int], cast: _Cast) -> bool:
    return span[0] <= cast.start and cast.end <= span[1]


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
