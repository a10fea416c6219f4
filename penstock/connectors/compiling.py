"""Java that stands beside the Python that needs it, compiled in the driver's JVM by what Spark has for it."""

from __future__ import annotations

from importlib.resources import files
from typing import Any


def compiled(jvm: Any, package: str, name: str, parent: Any) -> Any:
    """What has compiled a Java file of a package, and tells its classes; their loader has `parent`."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(files(package).joinpath(name).read_text(encoding="utf-8"))
    return compiler
