"""Files in HDFS. Exactly once: files are written aside and moved into place, and a batch that runs again
replaces its own.

What Hadoop must know, such as the name nodes of a cluster, goes under `spark:` in `penstock.yaml`, as
`spark.hadoop.*`, or into the files that HADOOP_CONF_DIR names.
"""

from __future__ import annotations

from pydantic import Field

from penstock.connectors import files


class Source(files.Source):
    path: str = Field("", description="hdfs://host:port/path, as for files.")


class Sink(files.Sink):
    path: str = Field("", description="hdfs://host:port/path, as for files.")


class Hdfs(files.Files):
    name = "hdfs"
    aliases = ("hadoop",)
    schemes = ("hdfs",)
    Source = Source
    Sink = Sink
