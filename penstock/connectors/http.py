"""Files over `http://` and `https://`, to read only: fetched whole by the driver each time, then read as
files are."""

from __future__ import annotations

import atexit
import base64
import http.client
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import Field, SecretStr, field_validator

from penstock.connectors.base import (
    METADATA_COLUMN,
    Capabilities,
    Column,
    Connector,
    ReadRequest,
    SourceOptions,
    Uri,
)
from penstock.connectors.folders import ending_of, file_rejects, read_files
from penstock.errors import DataError, SetupError
from penstock.options import Duration, Value
from penstock.uri import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = 1 << 20
_PAUSE = 0.5
"""Seconds before the first retry; each further one waits twice as long."""
_fetched: dict[str, str] = {}
"""The file of each URL that was read last, so that its bad records are those of the same bytes."""


class Source(SourceOptions):
    url: str = Field(description="The file's address.")
    format: str | None = Field(None, description="How rows stand in the file; by its ending unless set.")
    headers: dict[str, SecretStr] = Field({}, description="Headers to send, such as headers.Authorization.")
    timeout: Duration = Field(timedelta(seconds=30), description="How long the server may be silent.")
    retries: int = Field(3, ge=0, description="How often to try again when the server fails.")
    cache: str | None = Field(
        None,
        description="The folder that files are fetched into, which all workers must see; a temporary one"
        " unless set.",
    )

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
            raise ValueError("expected an address such as https://host/file.csv")
        return value


class Http(Connector):
    name = "http"
    aliases = ("https",)
    schemes = ("http", "https")
    capabilities = Capabilities(bounded=True, formats=True)
    Source = Source

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        return {"url": uri.text}

    def hidden(self, source: Any) -> tuple[Column, ...]:
        return (METADATA_COLUMN,)

    def format_of(self, options: Any) -> str | None:
        return ending_of(urlsplit(options.url).path)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        _fetched[source.url] = fetch(source)
        return read_files(spark, _fetched[source.url], source, request)

    def rejects(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        if source.url not in _fetched:
            _fetched[source.url] = fetch(source)
        return file_rejects(spark, _fetched[source.url], source, request)


def fetch(source: Source) -> str:
    """The local copy of a file; a fresh one each time."""
    name = unquote(urlsplit(source.url).path).rstrip("/").rpartition("/")[2] or "index"
    if source.cache:
        os.makedirs(source.cache, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="penstock-http-", dir=source.cache)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = Path(folder, name)
    for attempt in range(source.retries + 1):
        if attempt:
            time.sleep(_PAUSE * 2 ** (attempt - 1))
        try:
            _download(source, target)
            return str(target)
        except urllib.error.HTTPError as failure:
            failure.close()
            _raise_if_final(source.url, failure)
            last = f"{failure.code} {failure.reason}"
        except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as failure:
            last = str(getattr(failure, "reason", None) or failure) or type(failure).__name__
    raise SetupError(
        "unreachable",
        f"cannot fetch {mask(source.url)}: {last}",
        hint=f"tried {source.retries + 1} times; check the address, and that the server is up",
    )


def _download(source: Source, target: Path) -> None:
    headers = {name: value.get_secret_value() for name, value in source.headers.items()}
    parts = urlsplit(source.url)
    credentials, at, host = parts.netloc.rpartition("@")
    if at:
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(credentials).encode()).decode()}"
    url = quote(parts._replace(netloc=host, fragment="").geturl(), safe="%/:=&?~+!$,;'@()*[]")
    request = urllib.request.Request(url, headers={"User-Agent": "penstock", **headers})  # noqa: S310
    opener = urllib.request.build_opener(_Redirects(headers))
    with opener.open(request, timeout=source.timeout.total_seconds()) as answer, target.open("wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
        length = answer.headers.get("Content-Length")
        if length is not None and int(length) != file.tell():
            raise http.client.IncompleteRead(b"", int(length) - file.tell())


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to another host without the headers that were meant for the first."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            for name in self._headers:
                followed.remove_header(name.capitalize())
        return followed


def _raise_if_final(url: str, failure: urllib.error.HTTPError) -> None:
    """Raises when trying again cannot help."""
    answer = f"({failure.code} {failure.reason})"
    if failure.code in (404, 410):
        raise DataError("missing-file", f"{mask(url)} is not there {answer}") from None
    if failure.code in (401, 403):
        raise SetupError(
            "denied",
            f"{mask(url)} needs permission {answer}",
            hint="send credentials: WITH ('headers.Authorization' = '${env:NAME}')",
        ) from None
    if failure.code < 500 and failure.code not in (408, 425, 429):
        raise DataError("bad-request", f"{mask(url)} was refused {answer}") from None
