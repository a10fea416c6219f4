"""A tree against a pydantic model: what is wrong is underlined in the file and line it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from penstock.config.references import has_reference
from penstock.config.tree import Node
from penstock.errors import ConfigError, Place, did_you_mean
from penstock.options import Options

Model = TypeVar("Model", bound=Options)


def _is_reference(value: str) -> str:
    if not has_reference(value):
        raise ValueError("expected a reference")
    return value


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Late = Annotated[str, AfterValidator(_is_reference)]
"""Stands beside a type for a value that is only known once its references are resolved."""

_Long = Annotated[int, BeforeValidator(_no_bool), Field(lt=2**63)]
Count = Annotated[_Long, Field(ge=0)] | Late
Positive = Annotated[_Long, Field(ge=1)] | Late
AtLeastMinusOne = Annotated[_Long, Field(ge=-1)] | Late
Text = Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)]


def check(model: type[Model], node: Node, owner: str, *, given: Mapping[str, Any] | None = None) -> Model:
    """`node` as a `model`; `given` replaces the plain values of keys that were built before."""
    require_map(node, owner)
    for key, child in node.items.items():
        if key not in model.model_fields and model.model_config.get("extra") == "forbid":
            raise ConfigError(
                "unknown-key",
                f"unknown key '{key}' in {owner}",
                at=child.key_at or child.at,
                hint=did_you_mean(key, model.model_fields),
            )
    values = {key: child.plain() for key, child in node.items.items()} | dict(given or {})
    try:
        return model.model_validate(values)
    except ValidationError as failure:
        raise _config_error(failure, model, node, owner) from None


def require_map(node: Node, owner: str) -> None:
    if not isinstance(node.value, dict):
        raise ConfigError("bad-value", f"{owner} takes keys and values", at=node.at)


def _config_error(failure: ValidationError, model: type[Options], node: Node, owner: str) -> ConfigError:
    first = failure.errors(include_url=False, include_context=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    name = path[0] if path else ""
    field = model.model_fields.get(name)
    hint = field.description if field else None
    if first["type"] == "missing":
        return ConfigError("missing-key", f"{owner} needs '{name}'", at=node.key_at or node.at, hint=hint)
    keys, at = locate(node, path)
    message = str(first["msg"]).removeprefix("Value error, ")
    what = " ".join([f"'{'.'.join(keys)}' of", owner]) if keys else owner
    return ConfigError("bad-value", f"{what}: {message}", at=at, hint=hint)


def locate(node: Node, path: list[str]) -> tuple[list[str], Place]:
    """The deepest node on `path`; parts that are no keys (pydantic's names of union members) end it."""
    keys: list[str] = []
    for part in path:
        if part in node.items:
            node = node.items[part]
            keys.append(part)
        elif isinstance(node.value, list) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
    return keys, node.at
