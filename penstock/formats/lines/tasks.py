"""What workers are told to decode. Light to import: workers load the decoders when they need them."""

from __future__ import annotations

import ctypes
import gc
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, Literal

from penstock.formats.lines.csv_record import Dialect
from penstock.formats.lines.splits import Split
from penstock.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT = 32 << 20

Batches = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@dataclass(frozen=True)
class Task:
    """What to decode, and how."""

    columns: tuple[Column, ...]
    mode: Literal["fail", "mark", "rejects"]
    zone: str
    metadata: tuple[str, ...] = ()
    conditions: tuple[tuple[str, str, Any], ...] = ()
    """Rows that do not meet these (column, operator, value) may be left out."""
    dialect: Dialect | None = None
    """Of CSV; None for JSON."""
    encoding: str = "utf-8"

    @property
    def marks(self) -> bool:
        """Whether rows say if they are rejected; also rows of no columns at all, which must have one."""
        return self.mode == "mark" or not (self.columns or self.metadata)

    def over(self, splits: list[Split]) -> Batches:
        """A function for Spark's mapInArrow: numbers of splits in, their rows out."""

        def decode_lines(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _decode(self, splits, numbers)

        return decode_lines


def _decode(task: Task, splits: list[Split], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    preload()
    from penstock.formats.lines.batches import Decoding

    decoding = Decoding(task)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from decoding.read(splits[number])


@cache
def preload() -> None:
    """Frees tasks of what others do beside them.

    Spark invalidates import caches before each task, for which Python reads the index of every archive on
    its path anew, and collects garbage after each, for which Python visits every object of the modules that
    are loaded. Arrow, asked for its first array, loads all of pandas if it is there, to see whether it was
    given some of it; what does need pandas later still finds it. And its own memory pool keeps what chunks
    no longer need, while the system's gives back after each array what the next one asks for.
    """
    import pyarrow as pa

    import penstock.formats.lines.batches
    import penstock.formats.lines.csv_rows
    import penstock.formats.lines.json_rows  # noqa: F401

    pa.set_memory_pool(pa.system_memory_pool())
    _keep_memory()
    no_pandas = _NoPandas()
    sys.meta_path.insert(0, no_pandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(no_pandas)
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimport.zipimporter):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]
    gc.freeze()


def _keep_memory() -> None:
    """Tells the C library, where it can be told, to keep some of what was freed for the next chunk."""
    if sys.platform == "linux":
        tell = getattr(ctypes.CDLL(None), "mallopt", None)
        if tell is not None:
            tell(_M_TRIM_THRESHOLD, _KEPT)
            tell(_M_MMAP_THRESHOLD, _KEPT)


def _nothing() -> None:
    pass


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
