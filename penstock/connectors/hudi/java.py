"""Hudi's own writer, in the driver's JVM but apart from Spark's classes.

Its jars are made for another Spark, so they stand above Spark's class path in a class loader of their own,
and with them the class of `Writing.java`, which is compiled there.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.compiling import compiled
from penstock.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()


def writing(spark: SparkSession, jars: Sequence[Path], path: str, settings: Mapping[str, str]) -> Any:
    """The `Writing` of a table in a folder or a store, with settings as Hudi names them."""
    session: Any = spark
    jvm, gateway = session._jvm, session.sparkContext._gateway
    with _lock:
        constructor = _constructor(gateway, tuple(jars))
    arguments = gateway.new_array(jvm.java.lang.Object, 3)
    arguments[0] = session._jsparkSession.sessionState().newHadoopConf()
    arguments[1] = path
    arguments[2] = as_map(spark, settings)
    return constructor.newInstance(arguments)


def as_map(spark: SparkSession, pairs: Mapping[str, str]) -> Any:
    session: Any = spark
    made = session._jvm.java.util.HashMap()
    for key, value in pairs.items():
        made.put(key, value)
    return made


@cache
def _constructor(gateway: Any, jars: tuple[Path, ...]) -> Any:
    """The constructor of `Writing`; compiled once for each JVM."""
    if not jars:
        raise SetupError(
            "no-jar", "Hudi's jars were not handed to the connector", hint="run the statement by a session"
        )
    jvm = gateway.jvm
    urls = gateway.new_array(jvm.java.net.URL, len(jars))
    for position, jar in enumerate(jars):
        urls[position] = jvm.java.io.File(str(jar)).toURI().toURL()
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = compiled(jvm, __package__, "Writing.java", jvm.java.net.URLClassLoader(urls, parent))
    return compiler.getClassLoader().loadClass("penstock.hudi.Writing").getConstructors()[0]
