"""One SQL statement moves data from anywhere to anywhere, as a stream or a batch, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import Session, run

__version__ = "0.1.0"
__all__ = ["Session", "__version__", "run"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: Spark's workers import parts of this package and need none of this.
    if name in __all__:
        from penstock import api

        return getattr(api, name)
    raise AttributeError(f"module 'penstock' has no attribute '{name}'")
