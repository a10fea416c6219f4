"""The command line: reads arguments, calls `penstock.api`, prints.

Results go to stdout; notes, summaries and errors go to stderr. With `--json` all that a program needs is on
stdout, one JSON object a line, and a failure is the last of them:
`{"error": {"code": ..., "message": ..., "at": ..., "hint": ...}}`.

Exit codes: 0 done, 1 failed while running, 2 what was written is wrong, 3 the environment is wrong,
130 stopped with Ctrl-C.
"""

from __future__ import annotations

from penstock.cli.app import main

__all__ = ["main"]
