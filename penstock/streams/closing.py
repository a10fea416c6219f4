"""What is closed at the end of a `with` or an `async with`, and what is opened for one beside the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from penstock.streams.aside import aside

Own = TypeVar("Own", bound="Closing")


class Closing(ABC):
    @abstractmethod
    def close(self) -> None: ...

    async def aclose(self) -> None:
        """As `close`, while the loop does other things."""
        await aside(self.close)

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self: Own) -> Own:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Opening(Generic[Own]):
    """What is opened when it is awaited, or by `async with`, while the loop does other things."""

    def __init__(self, work: Callable[[], Own]) -> None:
        self._work = work
        self._opened: Own | None = None

    def __await__(self) -> Generator[Any, None, Own]:
        return aside(self._work).__await__()

    async def __aenter__(self) -> Own:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        await self._opened.aclose()
