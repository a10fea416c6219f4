"""A schema registry with Confluent's API: schemas by id, and new versions of a subject."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import AliasChoices, Field, SecretStr, field_validator

from penstock.errors import DataError, SetupError
from penstock.options import Options

_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT = 30
_DENIED = (401, 403)


class RegistryOptions(Options):
    schema_registry: str | None = Field(
        None,
        validation_alias=AliasChoices(
            "schema_registry",
            "schema.registry.url",
            "schema_registry_url",
            "value.converter.schema.registry.url",
        ),
        description="Where a schema registry answers; messages then begin with the id of their schema.",
    )
    schema_registry_user: str | None = Field(None, description="The user that the registry knows.")
    schema_registry_password: SecretStr | None = Field(None, description="The user's password.")

    @field_validator("schema_registry")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is None:
            return value
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("expected an address such as http://host:8081")
        if "@" in parts.netloc:
            raise ValueError("set schema_registry_user and schema_registry_password, not in the address")
        return value


@dataclass(frozen=True)
class Registry:
    """A registry, as workers are told of it."""

    url: str
    user: str | None = None
    password: SecretStr | None = None

    @classmethod
    def of(cls, options: Any) -> Registry | None:
        """The registry that a format's options name."""
        if options.schema_registry is None:
            return None
        return cls(options.schema_registry, options.schema_registry_user, options.schema_registry_password)

    def check(self) -> None:
        """Raises when the registry does not answer, or does not know us; asks until it did once."""
        _checked(self)

    def schema(self, id: int) -> Any:
        """The Avro schema of an id, ready to read with. Raises ValueError for one that is not there."""
        return _parsed(self, f"/schemas/ids/{id}", f"the registry has no schema {id}")

    def register(self, subject: str, schema: Any) -> int:
        """The id of a schema, which becomes the subject's next version if it is none yet."""
        try:
            return self._id(f"/subjects/{quote(subject, safe='')}/versions", schema)
        except _Refused as failure:
            if failure.status in (409, 422):
                raise DataError(
                    "schema-refused",
                    f"the registry refuses the schema of subject '{subject}': {failure.reason}",
                    hint="keep to the columns and types of the last version, give new columns defaults, or"
                    " change the subject's compatibility",
                ) from None
            raise self._failed(failure) from None

    def find(self, subject: str, schema: Any) -> int:
        """The id of a schema that a subject has already."""
        try:
            return self._id(f"/subjects/{quote(subject, safe='')}", schema)
        except _Refused as failure:
            if failure.status == 404:
                raise DataError(
                    "schema-unknown",
                    f"subject '{subject}' of the registry has no such schema: {failure.reason}",
                    hint="register it, name it with schema_file, or set auto_register = true",
                ) from None
            raise self._failed(failure) from None

    def _id(self, path: str, schema: Any) -> int:
        return _id_of(self, path, json.dumps(schema))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": _TYPE, "Accept": f"{_TYPE}, application/json", "User-Agent": "penstock"}
        data = None if body is None else json.dumps(body).encode()
        url = self.url.rstrip("/") + path
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
        if self.user is not None:
            password = self.password.get_secret_value() if self.password else ""
            login = base64.b64encode(f"{self.user}:{password}".encode()).decode()
            # Not for whom the registry may point us to.
            request.add_unredirected_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as failure:
            with failure:
                raise _Refused(failure.code, _reason(failure)) from None
        except (OSError, http.client.HTTPException, ValueError) as failure:
            reason = getattr(failure, "reason", None) or failure
            raise SetupError(
                "registry-unreachable",
                f"the schema registry at {self.url} does not answer: {reason}",
                hint="check schema_registry, and that the registry is up",
            ) from None

    def _failed(self, failure: _Refused) -> SetupError:
        if failure.status in _DENIED:
            return self._denied(failure)
        return SetupError(
            "registry-failed",
            f"the schema registry at {self.url} failed ({failure.status}): {failure.reason}",
        )

    def _denied(self, failure: _Refused) -> SetupError:
        return SetupError(
            "registry-denied",
            f"the schema registry at {self.url} does not let us in ({failure.status}): {failure.reason}",
            hint="check schema_registry_user and schema_registry_password",
        )


# What a registry has said once holds: a stream goes on while it is away.


@lru_cache(maxsize=100)
def _checked(registry: Registry) -> None:
    try:
        registry._call("GET", "/config")
    except _Refused as failure:
        if failure.status == 401:
            raise registry._denied(failure) from None


@lru_cache(maxsize=1000)
def _id_of(registry: Registry, path: str, schema: str) -> int:
    return int(registry._call("POST", path, {"schema": schema})["id"])


@lru_cache(maxsize=1000)
def _parsed(registry: Registry, path: str, missing: str) -> Any:
    """A schema with those that it refers to."""
    from fastavro.schema import parse_schema

    from penstock.formats.avro_schema import plain

    named: dict[str, Any] = {}
    try:
        answer = registry._call("GET", path)
    except _Refused as failure:
        if failure.status == 404:
            raise ValueError(missing) from None
        raise registry._failed(failure) from None
    if answer.get("schemaType", "AVRO") != "AVRO":
        raise ValueError(f"the schema is {answer['schemaType']}, not Avro")
    for other in answer.get("references") or ():
        below = f"/subjects/{quote(other['subject'], safe='')}/versions/{other['version']}"
        inner = _parsed(registry, below, f"the registry has no version {other['version']} of {other['name']}")
        named |= inner.get("__named_schemas", {})
    return parse_schema(plain(json.loads(answer["schema"])), named)


class _Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def _reason(failure: urllib.error.HTTPError) -> str:
    """The registry's own words."""
    text = failure.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:500] or str(failure.reason)
