"""Headers for systems that have texts alone, each name once; all others are packed into one text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode

from penstock.streams.message import Headers


def pack(
    headers: Mapping[str, bytes | str] | Headers, is_plain: Callable[[str, bytes], bool]
) -> tuple[dict[str, str], str]:
    """Those that stand for themselves, which must be UTF-8, and the others as one text."""
    plain: dict[str, str] = {}
    packed: list[tuple[bytes, bytes]] = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        data = value.encode() if isinstance(value, str) else value
        if name not in plain and is_plain(name, data):
            plain[name] = data.decode()
        else:
            packed.append((name.encode(), data))
    return plain, urlencode(packed)


def size_of(texts: Mapping[str, str]) -> int:
    """How large these are, about."""
    return sum(map(len, texts)) + sum(map(len, texts.values()))


def unpack(text: str) -> Headers:
    """What `pack` made one text of."""
    found = parse_qsl(text, keep_blank_values=True, encoding="latin-1")
    return tuple((name.encode("latin-1").decode(), value.encode("latin-1")) for name, value in found)
