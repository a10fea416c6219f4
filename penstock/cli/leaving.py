"""How the program ends: its work is done, all is closed, and the system takes back the rest.

Python would take itself apart object by object first, and wait for threads: a tenth of the time of a short
command, and as long as a server is away where a second signal has ended it at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys


class Leaving:
    """Ends the process after what was registered since for its end. Whoever has loaded Spark ends as Python
    does, and Java with it."""

    def __init__(self) -> None:
        self._code: int | None = None
        atexit.register(self._leave)  # what comes first is called last

    def ends(self, code: int, *, at_once: bool = False) -> None:
        self._code = code
        gc.disable()  # to look through all that was made takes longer than what is left to do
        if at_once:
            self._leave()

    def _leave(self) -> None:
        if self._code is None or "pyspark" in sys.modules:
            return
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except (OSError, ValueError, AttributeError):  # Python tells of it
            return
        os._exit(self._code)
