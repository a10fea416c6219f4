"""Commits of two processes to one table, in a folder or on S3, where Delta itself counts on a single one.

Delta learns that another has made its version from the file that is there already. But Hadoop, when it
renames a file in a folder or writes one on S3, looks first and writes then: both of two processes may win,
and the rows of one are lost. The classes of `Committing.java` look and write at once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from penstock.connectors.compiling import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHOSEN = "spark.delta.logStore."
_HOME = "io.delta.storage"
_CLASSES = {"file": "InFolders", "s3": "InS3", "s3a": "InS3"}
_lock = threading.Lock()


def commit_safely(spark: SparkSession) -> None:
    """From now on, no version of a table is made twice; what was chosen for a scheme before, stays."""
    session: Any = spark
    settings = session.sparkContext._jsc.sc().conf()
    with _lock:
        wanted = {
            f"{_CHOSEN}{scheme}.impl": f"{_HOME}.Committing${name}"
            for scheme, name in _CLASSES.items()
            if not settings.contains(f"{_CHOSEN}{scheme}.impl")
        }
        if not wanted or settings.contains(f"{_CHOSEN}class"):
            return
        _define(session)
        for key, value in wanted.items():
            settings.set(key, value)
        # Tables that were opened before keep what they were opened with.
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _define(session: Any) -> None:
    jvm, gateway = session._jvm, session.sparkContext._gateway
    compiler = compiled(
        jvm, __package__, "Committing.java", jvm.java.lang.Thread.currentThread().getContextClassLoader()
    )
    committing = compiler.getClassLoader().loadClass(f"{_HOME}.Committing")
    kinds = gateway.new_array(jvm.java.lang.Class, 1)
    kinds[0] = jvm.java.lang.Class.forName("java.util.Map")
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = compiler.getBytecodes()
    committing.getMethod("define", kinds).invoke(None, arguments)
