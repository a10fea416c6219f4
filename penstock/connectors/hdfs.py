"""Files in HDFS. Exactly once: files are written aside and moved into place, and a batch that runs again
replaces its own.

What Hadoop must know, such as the name nodes of a cluster, goes under `spark:` in `penstock.yaml`, as
`spark.hadoop.*`, or into the files that HADOOP_CONF_DIR names.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from penstock.connectors import files
from penstock.connectors.base import Access
from penstock.connectors.object_stores import InStore, ObjectStore
from penstock.connectors.storage import root_of


class Location(InStore):
    begins = r"hdfs://"
    expected = "hdfs://host:port/path"

    path: str = Field("", description="hdfs://host:port/path, as for files.")


class Source(Location, files.Source):
    pass


class Sink(Location, files.Sink):
    pass


class Hdfs(ObjectStore):
    name = "hdfs"
    aliases = ("hadoop",)
    schemes = ("hdfs",)
    starts_with_jars = False
    Source = Source
    Sink = Sink
    speaks = re.compile(r"Call From|hdfs\.|hadoop\.ipc\.")
    denied = re.compile(r"SIMPLE authentication is not enabled|GSS initiate failed|InvalidToken")
    missing = re.compile(r"(?!)")  # it has no buckets
    passing = re.compile(
        r"ConnectException|NoRouteToHost|UnknownHostException|ConnectTimeout|SocketTimeout"
        r"|SafeModeException|StandbyException|could only be written to 0 of"
    )

    def access(self, options: Any) -> Access:
        # Failures are tried again as the sink or the stream says; Hadoop alone would go on for minutes.
        settings = {"ipc.client.connect.max.retries": "2", "ipc.client.connect.max.retries.on.timeouts": "2"}
        return Access(settings, root_of(options.path))
