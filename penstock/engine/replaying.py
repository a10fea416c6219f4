"""Dead letters go through their pipeline again, each exactly once.

A replay has a number, and its batches are named by it; so sinks take each of them once, as they do with the
batches of the pipeline itself. First the letters are copied aside, then delivered, then removed from where
they were. One that was killed is done again, with the same letters and the same number, by the next.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog import Catalog, PipelineEntry
from penstock.engine import analysis, failures
from penstock.engine.build import Built, build
from penstock.engine.delivery import Delivered, Run, check_targets, deliver
from penstock.engine.evolution import Columns
from penstock.engine.leases import Lease
from penstock.engine.letterbox import File, Letterbox, Stage
from penstock.engine.replayed import ReplayedSource, check_keys, rows_of_json
from penstock.engine.session import own_processes
from penstock.engine.state import State, write_whole
from penstock.errors import InputError, Place, StatementError
from penstock.plan.nodes import Pipeline, Scan, Transform, Write
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MANIFEST = "manifest.json"
_LETTERS = "letters.parquet"


@dataclass(frozen=True)
class Replayed:
    """What a replay did, or with a dry run would do."""

    letters: int
    """Letters that went through the pipeline."""
    rows: int
    """Rows that were delivered."""
    again: int
    """Letters that failed again."""
    left: int
    """Letters that were not tried: of other stages, of batches that are not done, of sources that the
    statement does not read alone."""


def openings(plan: Pipeline) -> list[Scan]:
    """The sources whose letters can go through the query: streams, or the one source of a bounded query."""
    scans = list({scan.at: scan for scan in plan.root.scans()}.values())
    return [scan for scan in scans if scan.unbounded or len(scans) == 1]


def choose(plan: Pipeline, box: Letterbox, stage: Stage | None) -> list[File]:
    """The files of letters that a replay takes."""
    known = {(kind, scan.label) for scan in openings(plan) for kind in ("read", "query")}
    known |= {("write", sink.label) for sink in plan.sinks}
    wanted = {kind for kind in known if stage in (None, kind[0])}
    chosen = [file for file in box.files() if file.kinds & wanted]
    for file in chosen:
        if file.kinds - wanted:
            told = ", ".join(sorted(f"{kind} {of}" for kind, of in file.kinds - wanted))
            hint = "split it, or replay without --stage"
            raise InputError("mixed-letters", f"{file.path} also holds other letters: {told}", hint=hint)
    return chosen


class Replay:
    """Replays the letters of a pipeline; refused while it runs, since both write to the same places."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Pipeline,
        entry: PipelineEntry,
        state: State,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._spark, self._entry, self._state, self._tell = spark, entry, state, tell
        # Whatever the statement does with rows that are there: these come on top.
        added = [replace(s, options=s.options.model_copy(update={"mode": "append"})) for s in plan.sinks]
        self._plan = replace(plan, sinks=tuple(added))

    def run(self, catalog: Catalog, box: Callable[[], Letterbox], stage: Stage | None) -> Replayed:
        # Invariant 12
        with Lease(catalog, self._entry, processes=own_processes()) as lease:
            check_targets(self._spark, [*self._plan.sinks, *self._plan.dead_letters()], streaming=True)
            done: list[tuple[int, Delivered]] = []
            for number in self._state.replays():
                self._tell(f"{self._entry.name}: ends replay {number}, which was interrupted")
                done += self._finish(number, lease)
            letters = box()
            chosen = choose(self._plan, letters, stage)
            if chosen:
                done += self._finish(self._set_aside(letters, chosen), lease)
            elif not done:
                letters.check_elsewhere()
            left = sum(group.letters or 0 for group in box().groups())
        again = sum(d.rejected + d.refused for _, d in done)
        kept = sum(d.rejected + d.refused for _, d in done if d.dead_letters)
        rows = sum(delivered.rows - delivered.refused for _, delivered in done)
        return Replayed(sum(count for count, _ in done), rows, again, max(0, left - kept))

    def _set_aside(self, box: Letterbox, files: list[File]) -> int:
        """Copies letters, and notes where they are from: from here on the replay is done to its end."""
        number = self._state.next_replay()
        folder = self._state.replay(number)
        folder.mkdir(parents=True)
        box.hand_out(files, folder / _LETTERS)
        _note(folder, {"time": datetime.now(timezone.utc).isoformat(), "files": [f.path for f in files]})
        return number

    def _finish(self, number: int, lease: Lease) -> list[tuple[int, Delivered]]:
        folder = self._state.replay(number)
        told = _noted(folder)
        done: list[tuple[int, Delivered]] = []
        if told is not None:
            if not told.get("done"):
                lease.check()
                done = self._deliver(number, datetime.fromisoformat(told["time"]))
                _note(folder, {**told, "done": True})
            for path in told["files"]:
                Path(path).unlink(missing_ok=True)
        shutil.rmtree(folder)
        return done

    def _deliver(self, number: int, time: datetime) -> list[tuple[int, Delivered]]:
        from pyspark.sql import functions as f

        everything = self._spark.read.parquet(f"file://{self._state.replay(number) / _LETTERS}")
        counted = everything.groupBy("stage", "source").count().collect()
        counts = {(row.stage, row.source): row["count"] for row in counted}
        read = everything.where(f.col("stage") != "write")
        run = Run(self._state, number, time, replay="replay")
        done: list[tuple[int, Delivered]] = []
        make = self._making(read)
        if read_count := sum(count for (stage, _), count in counts.items() if stage != "write"):
            done.append((read_count, deliver(self._spark, self._plan, make, run)))
        for position, sink in enumerate(self._plan.sinks):
            if count := counts.get(("write", sink.label), 0):
                own = everything.where((f.col("stage") == "write") & (f.col("source") == sink.label))
                one = replace(self._plan, sinks=(sink,))
                run = Run(self._state, number, time, replay=f"replay-{position}")
                done.append((count, deliver(self._spark, one, self._rows(own, make, sink), run)))
        return done

    def _making(self, letters: DataFrame) -> Callable[[], Built]:
        """Builds the statement over letters, in place of the sources that they are of."""
        columns = self._find_columns()
        scans = {scan.at: self._replayed(scan, letters) for scan in openings(self._plan)}
        columns.follow(self._spark, scans.values())
        root = _over(self._plan.root, scans)

        def make() -> Built:
            built = build(self._spark, root, columns.request)
            analysis.check(built, frozenset(built.views[at] for at in scans))
            return built

        return make

    def _rows(self, letters: DataFrame, make: Callable[[], Built], sink: Write) -> Callable[[], Built]:
        """The rows that a sink refused, as the statement makes them."""

        def made() -> Built:
            schema = make().frame.schema
            check_keys(letters, schema, sink.label)
            return Built(rows_of_json(letters, schema))

        return made

    def _replayed(self, scan: Scan, letters: DataFrame) -> Scan:
        from pyspark.sql import functions as f

        own = letters.where(f.col("source") == scan.label)
        return replace(scan, connector=ReplayedSource(scan, own))

    def _find_columns(self) -> Columns:
        """The columns that a stream keeps; those of a bounded source are looked for again."""
        scans = {scan.at: scan for scan in self._plan.root.scans()}
        kept = self._state.kept() or {"sources": [], "columns": {}}
        streams = [scan.identity for scan in scans.values() if scan.unbounded]
        if kept["sources"] != streams:
            raise StatementError(
                "changed-sources",
                f"pipeline '{self._entry.name}' read {', '.join(kept['sources'])}, not {', '.join(streams)}",
                at=self._plan.statement.at,
                hint="replay its letters with the statement that it runs, but for the query itself",
            )
        columns = Columns(self._state, scans)
        columns.open(kept, {at: self._discovered(scan) for at, scan in scans.items() if not scan.unbounded})
        return columns

    def _discovered(self, scan: Scan) -> tuple[Column, ...]:
        request = replace(scan.request, used=None)
        with failures.at_end(scan):
            found = scan.connector.discover(self._spark, scan.options, request)
            if found:
                return found
            schema = scan.connector.read(self._spark, scan.options, request).schema
        return tuple(Column(field.name, field.dataType.simpleString()) for field in schema.fields)


def _over(node: Transform, scans: dict[Place, Scan]) -> Transform:
    inputs = (scans.get(n.at, n) if isinstance(n, Scan) else _over(n, scans) for n in node.inputs)
    return replace(node, inputs=tuple(inputs))


def _note(folder: Path, told: dict[str, Any]) -> None:
    write_whole(folder / _MANIFEST, json.dumps(told))


def _noted(folder: Path) -> dict[str, Any] | None:
    """What a replay was to do; None when it was killed before it had begun."""
    file = folder / _MANIFEST
    found: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return found
