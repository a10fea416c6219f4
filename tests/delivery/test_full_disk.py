"""No room for the checkpoint: a clear error, and nothing lost once there is room again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parents[2]
STATEMENT = """
SELECT id FROM 'in/*.jsonl' WITH (watch = true, delete_after_read = true) INTO 'out/*.parquet';
"""
# In a namespace of its own, so that no right to mount is needed; a small disk in memory holds the state.
SCRIPT = textwrap.dedent("""
    import json, pathlib, subprocess, sys

    state = pathlib.Path(".penstock")
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(state)], check=True)

    def put(name, ids):
        aside = pathlib.Path("in", "." + name)
        aside.write_text("".join(json.dumps({"id": n}) + "\\n" for n in ids))
        aside.rename(pathlib.Path("in", name))

    def run():
        command = [sys.executable, "-m", "penstock", "run", "move.sql", "--until-caught-up", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        left = len(list(pathlib.Path("in").glob("*")))
        return [done.returncode, json.loads(done.stdout.splitlines()[-1]), left]

    put("a.jsonl", range(10))
    told = [run()]
    put("b.jsonl", range(10, 20))
    with open(state / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 512)
        except OSError:
            pass
    told.append(run())
    (state / "filler").unlink()
    told.append(run())
    print(json.dumps(told))
""")


@pytest.mark.spark
def test_a_full_disk_stops_the_stream_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "move.sql").write_text(STATEMENT)
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CDS": "read"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    first, full, again = json.loads(done.stdout.splitlines()[-1])
    assert (first[0], first[2]) == (0, 0)
    assert full[0] == 3, full
    assert full[1]["error"]["code"] == "disk-full"
    assert full[2] == 1, "the file whose rows are not delivered stays"
    assert (again[0], again[2]) == (0, 0)
    found = duckdb.sql(f"SELECT id FROM '{tmp_path}/out/*.parquet' ORDER BY id").fetchall()
    assert [row[0] for row in found] == list(range(20))
