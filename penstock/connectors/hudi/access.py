"""How hudi-rs reaches the store of a table: what the options tell Hadoop, in the words of `object_store`.

What they do not tell it takes, as Hadoop does, from the environment or from the role of the machine.
"""

from __future__ import annotations

import json
import os
from configparser import ConfigParser

from penstock.connectors.object_stores import told
from penstock.connectors.places import Stored, scheme_of
from penstock.connectors.storage import root_of
from penstock.errors import SetupError

STORES = ("s3", "s3a", "gs", "azure", "az", "abfs", "abfss")
"""Those that it knows; HDFS is none of them."""


def access_of(place: Stored) -> dict[str, str]:
    """The options that hudi-rs opens a table with, secrets included; none for a folder."""
    scheme = scheme_of(place.path)
    if not scheme:
        return {}
    own = _s3(place) if scheme in ("s3", "s3a") else _gcs(place) if scheme == "gs" else _azure(place)
    if str(place.endpoint).startswith("http://"):
        own["allow_http"] = "true"
    return {key: value for key, value in own.items() if value is not None}


def _s3(place: Stored) -> dict[str, str | None]:
    endpoint, key, secret, token = (
        place.endpoint,
        *map(told, (place.access_key, place.secret_key, place.session_token)),
    )
    if place.profile is not None:
        key, secret, token = _of_profile(place.profile)
    by_host = endpoint is not None and place.path_style is False
    if endpoint is not None and by_host:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{root_of(place.path).partition('://')[2]}.{host}"
    return {
        "aws_endpoint_url": endpoint,
        "aws_region": place.region or ("us-east-1" if endpoint else None),
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_session_token": token,
        "aws_skip_signature": "true" if place.anonymous else None,
        "aws_virtual_hosted_style_request": "true" if by_host else None,
    }


def _of_profile(name: str) -> tuple[str, str, str | None]:
    """The keys that a file of AWS has under a name, which Hadoop reads by itself."""
    file = os.path.expanduser(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    profiles = ConfigParser(interpolation=None)
    profiles.read(file, encoding="utf-8")
    found = profiles[name] if profiles.has_section(name) else {}
    if "aws_access_key_id" not in found or "aws_secret_access_key" not in found:
        raise SetupError(
            "no-credentials",
            f"{file} has no keys for the profile '{name}'",
            hint="hudi-rs needs keys: as access_key and secret_key, or in the environment",
        )
    return found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token")


def _gcs(place: Stored) -> dict[str, str | None]:
    key = None
    if place.client_email is not None:
        secret = {"client_email": place.client_email, "private_key": told(place.private_key)}
        key = json.dumps({"type": "service_account", "private_key_id": place.private_key_id, **secret})
    return {
        "google_base_url": place.endpoint,
        "google_service_account": place.service_account_file,
        "google_service_account_key": key,
        "google_skip_signature": "true" if place.anonymous else None,
    }


def _azure(place: Stored) -> dict[str, str | None]:
    account = root_of(place.path).rpartition("@")[2].partition(".")[0]
    return {
        # An address that is not Microsoft's has the account in its path.
        "azure_storage_endpoint": f"{place.endpoint.rstrip('/')}/{account}" if place.endpoint else None,
        "azure_storage_account_name": account,
        "azure_storage_account_key": told(place.account_key),
        "azure_storage_sas_key": told(place.sas_token),
        "azure_storage_client_id": place.client_id,
        "azure_storage_client_secret": told(place.client_secret),
        "azure_storage_tenant_id": place.tenant_id,
    }
