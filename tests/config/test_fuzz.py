"""Whatever a file holds: a result, or one of our errors with a place; never anything else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config import load_endpoint, load_project, show
from penstock.config.tree import parse
from penstock.errors import PenstockError
from tests import fuzzing

EXAMPLES = Path(__file__).parent / "examples"
ODD = """
name: shop
master: ${env:MASTER:-local[2]}
state: here
spark: {spark.sql.shuffle.partitions: 4, spark.x: !!str 5}
streams: kafka://me:hidden@broker:9092
data_sources:
  one: &one {type: files, path: ["a", 'b'], size: 0x1F, time: 2024-01-31 12:30:45, ratio: 1.5e3}
  two:
    <<: *one
    password: ${secret:db}
    text: |
      several
      lines
performance_profiles: {mine: {trigger: 5 seconds, fetch_max_wait_ms: 10}}
performance_profile: mine
"""
CORPUS = [path.read_text() for path in sorted(EXAMPLES.rglob("*.yaml"))] + [ODD]
PIECES = [
    *sorted({line for text in CORPUS for line in text.splitlines(keepends=True)}),
    *["{", "}", "[", "]", ":", "- ", "? ", "&a ", "*a", "!!int ", "!x ", "---\n", "...\n", "<<: ", "|\n"],
    *["'", '"', "#", "\t", "\r", "\0", "\x85", "\u2028", "\ufeff", "😀", "${env:", "${file:/}"],
    *["9" * 400, "1e999", ".nan", "~", "null", "true", "0o9", ">-\n", "${secret:x}"],
    *["extends: .\n", "extends: mutated.yaml\n", "datasource:\n", "datasink: 5\n"],
]


@st.composite
def mutations(draw: st.DrawFn, corpus: list[str]) -> str:
    """A text of `corpus` with a few pieces cut out, doubled, moved, or put in from elsewhere."""
    text = draw(st.sampled_from(corpus))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 40)))
        changed: Callable[[str], str] = draw(
            st.sampled_from(
                [
                    lambda cut: "",
                    lambda cut: cut + cut,
                    lambda cut: cut[::-1],
                    lambda cut: draw(st.sampled_from(PIECES)),
                    lambda cut: cut + draw(st.sampled_from(PIECES)),
                    lambda cut: draw(st.text(max_size=5)),
                ]
            )
        )
        text = text[:start] + changed(text[start:stop]) + text[stop:]
    return text


def _error(load: Callable[[Path], object], path: Path) -> PenstockError | None:
    try:
        load(path)
    except PenstockError as error:
        return error
    return None


def _must_be_ours(path: Path) -> None:
    for error in filter(None, (_error(load, path) for load in (load_endpoint, load_project, show))):
        assert error.at is not None, str(error)
        assert error.at.line >= 1
        assert error.at.column >= 1


@settings(max_examples=fuzzing.EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutations(CORPUS))
def test_mutated_files(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    if not folder.exists():
        shutil.copytree(EXAMPLES / "configs", folder)
    path = folder / "mutated.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    _must_be_ours(path)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text("ab:-[]{}#&*!|>'\"%@`,? \n\t\\<~0.", max_size=60).map(str.encode))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    _must_be_ours(path)


@settings(max_examples=300, deadline=None)
@given(mutations(CORPUS))
def test_the_slow_parser_says_the_same(text: str) -> None:
    """Where PyYAML was built without libyaml, its own parser is used."""
    import yaml

    from penstock.config import tree

    def outcome() -> str | None:
        try:
            return repr(parse(text, "f").plain())
        except PenstockError:
            return None

    fast = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "_LOADER", yaml.SafeLoader)
        slow = outcome()
    assert fast is None or slow is None or fast == slow
