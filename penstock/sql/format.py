"""`penstock fmt`: a printer that works on tokens, so that it cannot change what a text means.

Words that were read as keywords are put in upper case, clauses on lines of their own, and what is too
long is broken at commas, AND, OR and brackets. Everything else is printed as it was written. A comment
stays behind the token that it followed on a line, or on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect import Parser, comments, tokenize
from penstock.sql.layout import Atom, lines_of, share_line
from penstock.sql.parse import read

_WORDS = re.compile(r"[^\W\d]\w*(\s+[^\W\d]\w*)*")
_UNTOUCHED = {TokenType.VAR, TokenType.HINT, *Parser.TYPE_TOKENS, *Parser.NO_PAREN_FUNCTIONS} - {
    TokenType.INTERVAL, TokenType.NULL, TokenType.RANGE, TokenType.UNION, TokenType.UNKNOWN,
}  # fmt: skip
"""Names of types and functions stay as they were written."""


def format_sql(text: str, source: str = "statement") -> str:
    """The same statements, laid out; raises what `parse` raises for a text that does not parse."""
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    names: set[int] = set()
    keywords: set[int] = set()
    for _, read_as_keywords, read_as_names in read(text, source):
        keywords |= read_as_keywords
        names |= read_as_names
    atoms, rest = _atoms(text, _Words(text, keywords, names))
    blocks: list[list[str]] = []
    loose: list[str] = []
    for statement, end in _statements(atoms):
        if not statement:
            loose += [*end.lead, *end.trail]
            continue
        lead, statement[0].lead = [*loose, *statement[0].lead], []
        lines, loose = _closed(statement, end)
        blocks.append([*lead, *lines])
    blocks.append([*loose, *rest])
    texts = ["\n".join(block).strip("\n") for block in blocks]
    return "".join(f"{block}\n\n" for block in texts if block)[:-1]


def _statements(atoms: list[Atom]) -> Iterator[tuple[list[Atom], Atom]]:
    statement: list[Atom] = []
    for atom in atoms:
        if atom.text == ";":
            yield statement, atom
            statement = []
        else:
            statement.append(atom)
    if statement:
        yield statement, Atom(";")


def _closed(statement: list[Atom], end: Atom) -> tuple[list[str], list[str]]:
    """A statement's lines, its semicolon before the comment that ends it; and comments left over."""
    trail, statement[-1].trail = statement[-1].trail, []
    lines = lines_of(statement)
    if end.lead:
        lines[-1] = " ".join([lines[-1], *trail])
        return [*lines, *filter(None, end.lead), " ".join([";", *end.trail])], []
    kept, left = share_line(trail, end.trail)
    lines[-1] = " ".join([lines[-1] + ";", *kept])
    return lines, left


class _Words:
    """Tells keywords from names."""

    def __init__(self, text: str, keywords: set[int], names: set[int]) -> None:
        self.text = text
        self.keywords = keywords
        self.names = names

    def is_keyword(self, tokens: list[Token], i: int) -> bool:
        token = tokens[i]
        before = tokens[i - 1].token_type if i else TokenType.SENTINEL
        after = tokens[i + 1].token_type if i + 1 < len(tokens) else TokenType.SENTINEL
        if token.start in self.names or not _WORDS.fullmatch(self.text, token.start, token.end + 1):
            return False
        if before in (TokenType.DOT, TokenType.COLON) or after == TokenType.FARROW:
            return False
        return token.start in self.keywords or token.token_type not in _UNTOUCHED

    def tokens(self) -> Iterator[Token]:
        """The tokens as they stand in the text: `10L` is one, and so is the value of a SET."""
        found: list[Token] = []
        for token in tokenize(self.text):
            if found and found[0].token_type == TokenType.SET and token.token_type != TokenType.SEMICOLON:
                if found[-1].token_type == TokenType.HINT:
                    found[-1].end = token.end
                    continue
                if TokenType.EQ in (t.token_type for t in found):
                    token.token_type = TokenType.HINT
            if found and token.start == found[-1].start:
                continue
            if token.token_type == TokenType.SEMICOLON:
                yield from found
                yield token
                found = []
            else:
                found.append(token)
        yield from found


def _atoms(text: str, words: _Words) -> tuple[list[Atom], list[str]]:
    """Every token with its comments, and the comments that stand behind the last one."""
    tokens = list(words.tokens())
    atoms: list[Atom] = []
    end = 0
    for i, token in enumerate(tokens):
        trail, lead = _comments(text, end, token.start, bool(atoms))
        if atoms:
            atoms[-1].trail = trail
        written = text[token.start : token.end + 1]
        keyword = words.is_keyword(tokens, i)
        atoms.append(
            Atom(
                " ".join(written.upper().split()) if keyword else written,
                keyword=keyword,
                taken=token.start in words.keywords,
                glued=token.start == end,
                lead=lead,
            )
        )
        end = token.end + 1
    trail, rest = _comments(text, end, len(text), bool(atoms))
    if atoms:
        atoms[-1].trail = trail
    return atoms, rest


def _comments(text: str, start: int, end: int, behind: bool) -> tuple[list[str], list[str]]:
    """The comments between two tokens: those on the first one's line, and those on lines of their own.

    An empty string among the latter is a blank line.
    """
    trail: list[str] = []
    lead: list[str] = []
    position = start
    for begin, stop in comments(text, start, end):
        between = text[position:begin]
        comment = text[begin:stop].rstrip()
        if behind and not lead and "\n" not in between and "\r" not in between:
            trail.append(comment)
        else:
            lead += ["", comment] if lead and between.count("\n") > 1 else [comment]
        position = stop
    if lead and text[position:end].count("\n") > 1:
        lead.append("")
    return trail, lead
