"""The peers, each in an environment of its own under .build/peers, made when it is not there.

`python -m benchmarks.peers` makes all of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.measure import ROOT

FOLDER = ROOT / ".build" / "peers"
PACKAGES = {
    "flink": ("apache-flink==2.3.0",),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.16.1", "orjson==3.13.0", "pyarrow==26.0.1"),
}
FLINK_JARS = (
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    "org.apache.flink:flink-sql-parquet:2.3.0",
)


def python_of(peer: str) -> Path:
    """The Python of a peer's environment."""
    folder = FOLDER / peer
    python, made = folder / "bin" / "python", folder / "made"
    packages = "\n".join(PACKAGES[peer])
    if not made.exists() or made.read_text() != packages:
        print(f"making {folder}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, symlinks=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[peer]], check=True)
        if peer == "flink":
            add_jars(folder)
        made.write_text(packages)
    return python


def add_jars(folder: Path) -> None:
    """Flink's connectors, and Hadoop for its Parquet, which PySpark has."""
    import pyspark

    from penstock.engine.jars import fetch

    (lib,) = folder.glob("lib/python*/site-packages/pyflink/lib")
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    for jar in (*fetch(FLINK_JARS), *hadoop):
        shutil.copy(jar, lib)


if __name__ == "__main__":
    for name in PACKAGES:
        print(python_of(name))
