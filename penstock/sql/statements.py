"""One frozen dataclass for each statement: what was written, and where."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.errors import Place
from penstock.options import Setting
from penstock.schema import Column
from penstock.sql.places import place_of


@dataclass(frozen=True)
class Watermark:
    """`WATERMARK FOR ts AS ts - INTERVAL '5' SECOND`."""

    column: str
    expression: str


@dataclass(frozen=True)
class Endpoint:
    """A URI or a name, and the `WITH` that belongs to it."""

    name: str
    is_uri: bool
    settings: tuple[Setting, ...]
    at: Place


@dataclass(frozen=True)
class Relation(Endpoint):
    """An endpoint in FROM or JOIN; `text[start:end]` of its query is what a view's name replaces."""

    start: int
    end: int
    alias: str | None = None
    filters: tuple[tuple[str, str, Any], ...] = ()
    """Conditions (column, operator, value) that its rows must meet to be seen by the query."""

    @property
    def label(self) -> str | None:
        """What the query calls it, before the dot of a column; a URI without an alias has none."""
        return self.alias or (None if self.is_uri else self.name.rpartition(".")[2])


@dataclass(frozen=True)
class Edit:
    """Spark is given `text` in place of a query's `text[start:end]`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Star:
    """A `*` that stands for the columns of some relations."""

    end: int
    """Where a list of exceptions goes: behind it, or at the end of the list it has."""
    listed: frozenset[str] | None
    """The names in the list it has."""
    relations: tuple[int, ...]
    """Their positions in the query."""


@dataclass(frozen=True)
class AfterValue:
    """An expression of a SELECT that reads `after`: what a row is after a change, nothing for a deletion."""

    name: str
    """Of its column, lower case."""
    start: int
    end: int
    otherwise: str
    """The same of `before`, for Spark."""


@dataclass(frozen=True)
class Query:
    """A SELECT, as it was written: Spark gets its own text back, but for the pieces that are ours."""

    text: str
    at: Place
    relations: tuple[Relation, ...]
    edits: tuple[Edit, ...] = ()
    names: frozenset[str] = frozenset()
    """Every identifier in it, lower case: whatever column is used is among them."""
    star: bool = False
    """Whether it may use all columns of a relation."""
    stars: tuple[Star, ...] = ()
    after: tuple[AfterValue, ...] = ()
    failed_cast: str | None = None
    """An expression over the rows of its one relation: the CAST that fails, as `penstock.sql.casts` says."""

    def keyed_by(self, keys: Collection[str]) -> Query:
        """The same query, whose columns of these names, lower case, read `before` where `after` is null."""
        found = [value for value in self.after if value.name in keys]
        if not found:
            return self
        begins = (Edit(value.start, value.start, "COALESCE(") for value in found)
        ends = (Edit(value.end, value.end, f", {value.otherwise})") for value in found)
        return replace(self, edits=(*begins, *self.edits, *ends), names=self.names | {"before"}, after=())

    def hiding(self, hidden: Sequence[Collection[str]]) -> Query:
        """The same query, whose stars leave out the columns of each relation that are `hidden`."""
        more = [edit for star in self.stars if (edit := self._without(star, hidden)) is not None]
        return replace(self, edits=(*self.edits, *more), stars=()) if more else self

    def _without(self, star: Star, hidden: Sequence[Collection[str]]) -> Edit | None:
        names = [self._qualified(i, name, star) for i in star.relations for name in sorted(hidden[i])]
        left = [name for name in names if name.rpartition(".")[2] not in (star.listed or ())]
        if not left:
            return None
        text = ", ".join(left)
        return Edit(star.end, star.end, f" EXCEPT ({text})" if star.listed is None else f", {text}")

    def _qualified(self, relation: int, name: str, star: Star) -> str:
        """A column among those of several relations; one without a name of its own goes without."""
        label = self.relations[relation].label
        if len(star.relations) == 1 or label is None:
            return name
        return f"`{label.replace('`', '``')}`.{name}"

    def spark_sql(self, views: Sequence[str]) -> str:
        """The text for Spark: each relation replaced by the view of the same position in `views`."""
        # Invariant 6
        pieces, position = [], 0
        for edit in self._edits(views):
            pieces += [self.text[position : edit.start], edit.text]
            position = edit.end
        return "".join([*pieces, self.text[position:]])

    def place(self, views: Sequence[str], start: int, stop: int) -> Place:
        """Where the user wrote what stands at `spark_sql(views)[start:stop]`."""
        begin, end = (self._written(views, offset) for offset in (start, stop))
        inside = place_of(self.at.source, self.text, begin, end)
        first = inside.line == 1
        return Place(
            source=self.at.source,
            line=self.at.line + inside.line - 1,
            column=inside.column + (self.at.column - 1 if first else 0),
            length=inside.length,
            text=self.at.text if first else inside.text,
        )

    def _written(self, views: Sequence[str], offset: int) -> int:
        """The offset in `text` of an offset in the text for Spark; inside an edit, the edit's start."""
        shift = 0
        for edit in self._edits(views):
            begin = edit.start + shift
            if offset < begin:
                break
            if offset < begin + len(edit.text):
                return edit.start
            shift += len(edit.text) - (edit.end - edit.start)
        return offset - shift

    def _edits(self, views: Sequence[str]) -> list[Edit]:
        edits = list(self.edits)
        for relation, view in zip(self.relations, views, strict=True):
            label = relation.label if relation.alias is None else None
            named = f" AS `{label.replace('`', '``')}`" if label else ""
            edits.append(Edit(relation.start, relation.end, f"`{view}`{named}"))
        return sorted(edits, key=lambda edit: (edit.start, edit.end))


@dataclass(frozen=True)
class Statement:
    """`text` is the whole statement without its semicolon; `at` where it begins."""

    text: str
    at: Place


@dataclass(frozen=True)
class Select(Statement):
    """`SELECT ... [INTO 'uri' [WITH (...)], ...]`; without INTO, rows go to the terminal."""

    query: Query
    sinks: tuple[Endpoint, ...] = ()


@dataclass(frozen=True)
class Insert(Statement):
    """`INSERT INTO name SELECT ... [WITH (...)]`."""

    target: Endpoint
    query: Query
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class CreateSource(Statement):
    """`CREATE SOURCE|TABLE name (columns) WITH (...) [ROW FORMAT ...] [FORMAT ... ENCODE ...]`.

    A TABLE (Flink's form) can be read and written, a SOURCE only read.
    """

    kind: Literal["source", "table"]
    name: str
    columns: tuple[Column, ...]
    settings: tuple[Setting, ...]
    watermark: Watermark | None = None
    row_format: str | None = None
    """`PLAIN`, `DEBEZIUM`, ...: how rows stand in messages."""
    encoding: str | None = None
    """`JSON`, `AVRO`, ...: how a row's bytes are made."""
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    """`CREATE SINK name FROM relation WITH (...)`, `CREATE SINK name AS SELECT ... WITH (...)`."""

    name: str
    query: Query
    settings: tuple[Setting, ...]
    row_format: str | None = None
    encoding: str | None = None
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateConnector(Statement):
    """`CREATE SOURCE CONNECTOR name FROM system WITH (...)`, `CREATE SINK CONNECTOR name TO system ...`."""

    kind: Literal["source", "sink"]
    name: str
    system: str
    settings: tuple[Setting, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    """`CREATE [OR REPLACE] VIEW name AS SELECT ...`."""

    name: str
    query: Query
    replace: bool = False
    if_not_exists: bool = False


ObjectKind = Literal["source", "table", "sink", "view", "connector", "pipeline"]


@dataclass(frozen=True)
class Drop(Statement):
    """`DROP SOURCE|TABLE|SINK|VIEW|CONNECTOR|PIPELINE [IF EXISTS] name`."""

    kind: ObjectKind
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """`SHOW SOURCES|TABLES|SINKS|VIEWS|CONNECTORS|PIPELINES`."""

    kind: ObjectKind


@dataclass(frozen=True)
class Upkeep(Statement):
    """`OPTIMIZE|VACUUM name|'uri' [WITH (...)]`: makes a table's files fewer, or deletes old ones."""

    action: Literal["optimize", "vacuum"]
    target: Endpoint


@dataclass(frozen=True)
class Describe(Statement):
    """`DESCRIBE name`, or of a URI."""

    target: Endpoint


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN statement`."""

    statement: Statement


@dataclass(frozen=True)
class Set(Statement):
    """`SET key = value`."""

    setting: Setting


@dataclass(frozen=True)
class Lifecycle(Statement):
    """`PAUSE|RESUME|RESTART CONNECTOR|PIPELINE name`."""

    action: Literal["pause", "resume", "restart"]
    kind: Literal["connector", "pipeline"]
    name: str
