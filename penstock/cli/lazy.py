"""Commands that are loaded when they are asked for, so that none waits for what another one needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


@dataclass(frozen=True)
class Several:
    """Commands under one name."""

    help: str
    commands: Mapping[str, str]


class _Commands(MutableMapping[str, Any]):
    """By name; each is made when it is looked up."""

    def __init__(self, places: Mapping[str, str | Several]) -> None:
        self._places = dict(places)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(name, self._places[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command
        self._places.setdefault(name, "")

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class LazyGroup(TyperGroup):
    """A program whose commands are named by `places`: `module:function` in this package, or several."""

    places: ClassVar[Mapping[str, str | Several]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(self.places)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.places)


def _make(name: str, place: str | Several) -> Any:
    if isinstance(place, str):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(_function(place))
        return typer.main.get_command(alone)
    several = typer.Typer(name=name, help=place.help, add_completion=False)
    for inner, function in place.commands.items():
        several.command(inner)(_function(function))
    return typer.main.get_group(several)


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"penstock.cli.{module}"), name)
