"""How the program ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import atexit, sys

class Held:
    def __del__(self):
        print("taken apart")

held = Held()
sys.argv = ["penstock", *sys.argv[1:]]
{before}
from penstock.cli import main
code = main()
atexit.register(print, "last words")
sys.exit(code)
"""


def program(*args: str, before: str = "", stdout: int | None = subprocess.PIPE) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before), *args],
        stdout=stdout, stderr=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    return done.returncode, (done.stdout or "").splitlines()[-2:]


def test_the_program_does_what_is_to_be_done_at_its_end_and_leaves() -> None:
    assert program("fmt", "nowhere.sql") == (2, ["last words"])
    assert program("--version")[0] == 0


def test_who_has_loaded_spark_ends_as_python_does() -> None:
    before = "sys.modules['pyspark'] = sys"
    assert program("fmt", "nowhere.sql", before=before) == (2, ["last words", "taken apart"])


def test_what_cannot_be_written_is_told_as_ever() -> None:
    with Path("/dev/full").open("w") as full:
        assert program("--version", stdout=full.fileno())[0] != 0


def test_who_calls_it_goes_on() -> None:
    script = "import gc; from penstock.cli import main; was = gc.get_threshold(); main(['--version']);"
    script += "print(gc.get_threshold() == was)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
