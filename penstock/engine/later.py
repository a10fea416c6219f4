"""Modules that are loaded when they are used.

Spark imports pandas, half a second and 30 MB, to ask for its version before it hands Arrow batches to Python.
"""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_lock = RLock()


class _Later(ModuleType):
    """A module that knows its version, and loads itself when it is asked for anything else."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return metadata.version(self.__name__)
        _load(self)
        return getattr(self, name)


def _load(module: ModuleType) -> None:
    with _lock:
        if type(module) is _Later:
            module.__class__ = ModuleType  # type: ignore[assignment]
            assert module.__spec__ is not None
            assert module.__spec__.loader is not None
            module.__spec__.loader.exec_module(module)


class _Parts(MetaPathFinder):
    """Loads a module before one of its parts is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        whole = sys.modules.get(name.partition(".")[0])
        if type(whole) is not _Later:
            return None
        _load(whole)
        part = sys.modules.get(name)
        if part is None:
            return None
        # Python would load it a second time by the specification that it has.
        part.__spec__ = ModuleSpec(name, _There(part))
        return part.__spec__


class _There(Loader):
    """Gives a part that came with the whole."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def load_later(name: str) -> None:
    """Puts off the import of a module, if it is installed and was not imported yet."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is not None:
        module = module_from_spec(spec)
        module.__class__ = _Later
        sys.modules[name] = module
        sys.meta_path.insert(0, _Parts())
