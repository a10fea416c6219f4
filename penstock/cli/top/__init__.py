"""`penstock top`: what streams are doing now. The screen is Textual's, which is loaded when there is one."""

from __future__ import annotations

from penstock.cli.top.command import top

__all__ = ["top"]
