"""Typed options: one pydantic model says what a connector, a format or a statement takes.

Values come from SQL, YAML, a URI's query or a Connect JSON as `Setting`s that know where they were
written, so that a bad one is underlined there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from inspect import get_annotations
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from penstock.errors import OptionError, Place, did_you_mean

Value = str | int | float | bool | list[Any] | dict[str, Any] | None


@dataclass(frozen=True)
class Setting:
    """A key and its value, as somebody wrote them, and where."""

    key: str
    value: Value
    at: Place | None = None
    wish: bool = False
    """Whether a profile makes it, for whoever knows it; others let it be."""


class Options(BaseModel):
    """Base of every options model: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, loc_by_alias=False)


_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "millisecond": 0.001, "s": 1, "sec": 1, "second": 1, "": 1,
            "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def parse_duration(value: Any) -> timedelta:
    """`'5 minutes'`, `'500 ms'`, `30` (seconds)."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(str(value))
    unit = match and (
        match[2].lower() if match[2].lower() in _SECONDS else match[2].lower().removesuffix("s")
    )
    if match is None or unit not in _SECONDS:
        raise ValueError("expected a duration such as '5 minutes', '500 ms' or a number of seconds")
    try:
        return timedelta(seconds=float(match[1]) * _SECONDS[unit])
    except OverflowError:
        raise ValueError("too long a duration") from None


def parse_size(value: Any) -> int:
    """`'64 MB'`, `1024`."""
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise ValueError("expected a size such as '64 MB' or a number of bytes")
    size = float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")
    if size >= 2**63:
        raise ValueError("too large a size")
    return int(size)


def _names(value: Any) -> Any:
    return tuple(n.strip() for n in value.split(",") if n.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Columns, separated by commas."""
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]

Model = TypeVar("Model", bound=Options)


def names_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Our one name for a field, then the names that other systems' users know it by."""
    alias = field.validation_alias
    choices = [c for c in alias.choices if isinstance(c, str)] if isinstance(alias, AliasChoices) else []
    return (name, *(c for c in choices if c != name))


def known_keys(*models: type[Options]) -> dict[str, str]:
    """Every accepted spelling (lower case) -> our name, over all of `models`."""
    return {
        spelling.lower(): name
        for model in models
        for name, field in model.model_fields.items()
        for spelling in names_of(name, field)
    }


def path_of(key: str, *models: type[Options]) -> tuple[str, ...] | None:
    """Where a key belongs: `('topic',)`, or `('fields', 'amount', 'min')` for a dotted key of a dict field.

    A dict field takes as many parts of the key as its type is deep; the last takes the rest, dots included,
    so that `properties.bootstrap.servers` of a `dict[str, str]` is its `bootstrap.servers`.
    """
    table = known_keys(*models)
    if key.lower() in table:
        return (table[key.lower()],)
    types = {name: field.annotation for model in models for name, field in model.model_fields.items()}
    dots = [i for i, character in enumerate(key) if character == "."]
    for dot in reversed(dots):
        name = table.get(key[:dot].lower())
        if name is not None and (depth := _depth(types[name])):
            return (name, *key[dot + 1 :].split(".", depth - 1))
    return None


def _depth(annotation: Any) -> int:
    """How many dicts stand in each other; a model in a dict is one more."""
    if get_origin(annotation) in (Union, UnionType):
        return max(_depth(a) for a in get_args(annotation))
    if get_origin(annotation) is dict:
        inner = get_args(annotation)[1]
        return 1 + (1 if _is_model(inner) else _depth(inner))
    return int(annotation is dict)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)


def _models_in(annotation: Any) -> list[type[Options]]:
    return [annotation] if _is_model(annotation) else [m for a in get_args(annotation) for m in _models_in(a)]


def split(settings: Iterable[Setting], *models: type[Options]) -> tuple[list[Setting], ...]:
    """Hands each setting to the first model that knows its key; the last list holds what none knows."""
    parts: tuple[list[Setting], ...] = tuple([] for _ in range(len(models) + 1))
    for setting in settings:
        index = next((i for i, model in enumerate(models) if path_of(setting.key, model)), len(models))
        parts[index].append(setting)
    return parts


def refuse_unknown(settings: Iterable[Setting], owner: str, *models: type[Options]) -> None:
    """Raises for the first setting, with the nearest known key as a hint."""
    # Invariant 7
    for setting in settings:
        raise OptionError(
            "unknown-option",
            f"unknown option '{setting.key}' for {owner}",
            at=setting.at,
            hint=did_you_mean(setting.key, set(known_keys(*models).values())),
        )


def bind(model: type[Model], settings: Iterable[Setting], owner: str, *, at: Place | None = None) -> Model:
    """Validates `settings` into `model`; errors name the option, the owner and the place.

    Dotted keys fold into a dict field (see `path_of`). `at` is where the owner itself stands, for an option
    that is missing.
    """
    values: dict[str, Any] = {}
    places: dict[tuple[str, ...], Setting] = {}
    for setting in settings:
        path = path_of(setting.key, model)
        if path is None:
            refuse_unknown([setting], owner, model)
            continue
        _fold(values, path, setting, owner)
        places[path] = setting
    try:
        return model.model_validate(values)
    except ValidationError as failure:
        raise _option_error(failure, model, places, owner, at) from None


def _fold(values: dict[str, Any], path: tuple[str, ...], setting: Setting, owner: str) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            outer = setting.key[: setting.key.lower().find(part.lower()) + len(part)]
            raise OptionError(
                "bad-option", f"option '{setting.key}' of {owner}: '{outer}' is set to a value", at=setting.at
            )
    old = values.get(path[-1])
    value = deepcopy(setting.value)  # later dotted keys are put into it
    values[path[-1]] = old | value if isinstance(old, dict) and isinstance(value, dict) else value


def _option_error(
    failure: ValidationError,
    model: type[Options],
    places: Mapping[tuple[str, ...], Setting],
    owner: str,
    at: Place | None,
) -> OptionError:
    first = failure.errors(include_url=False, include_context=False, include_input=False)[0]
    path = tuple(str(part) for part in first["loc"])
    name = path[0] if path else ""
    field = model.model_fields.get(name)
    hint = field.description if field else None
    setting = next((places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in places), None)
    if first["type"] == "missing" and len(path) == 1:
        return OptionError("missing-option", f"{owner} needs option '{name}'", at=at, hint=hint)
    if first["type"] == "extra_forbidden" and field is not None:
        known = known_keys(*_models_in(field.annotation)).values()
        key = ".".join(path)
        hint = did_you_mean(path[-1], known)
        place = setting.at if setting else at
        return OptionError("unknown-option", f"unknown option '{key}' for {owner}", at=place, hint=hint)
    message = str(first["msg"]).removeprefix("Value error, ")
    what = f"option '{setting.key if setting else '.'.join(path)}' of {owner}" if name else owner
    return OptionError("bad-option", f"{what}: {message}", at=setting.at if setting else at, hint=hint)


@dataclass(frozen=True)
class Option:
    """An option as people read about it."""

    name: str
    type: str
    required: bool
    default: str | None
    """As it would be written; None when there is none."""
    aliases: tuple[str, ...]
    description: str


def describe(model: type[Options]) -> list[Option]:
    """Every option of a model, in the order of its declaration, those that all have in common last."""
    own = get_annotations(model)
    fields = sorted(model.model_fields.items(), key=lambda item: item[0] not in own)
    return [
        Option(
            name=name,
            type=type_name(field.annotation, *field.metadata),
            required=field.is_required(),
            default=None if field.is_required() else _written(field.get_default(call_default_factory=True)),
            aliases=names_of(name, field)[1:],
            description=field.description or "",
        )
        for name, field in fields
    ]


_TYPES = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    timedelta: "duration",
    SecretStr: "secret",
}


def type_name(annotation: Any, *metadata: Any) -> str:
    """A type in words: `duration`, `append | overwrite`, `list of text`."""
    if any(isinstance(m, BeforeValidator) and m.func is parse_size for m in metadata):
        return "size"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(inner[0], *inner[1:])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(type_name(a) for a in inner if a is not type(None)))
    if origin in (list, tuple, set, frozenset):
        return f"list of {type_name(inner[0])}"
    if origin is dict or annotation is dict:
        return f"map of {type_name(inner[1])}" if inner else "map"
    if _is_model(annotation):
        return "options"
    return _TYPES.get(
        annotation, "any" if annotation is Any else getattr(annotation, "__name__", str(annotation))
    )


def _written(value: Any) -> str | None:
    if value is None or value == () or value == [] or value == {}:
        return None
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} seconds"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, str):
        return value if value.isprintable() and value.strip() else repr(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
