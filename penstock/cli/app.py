"""The program: its commands, and what an error, Ctrl-C or a surprise turn into."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import typer

from penstock.cli import INTERRUPTED, render
from penstock.cli.lazy import LazyGroup, Several
from penstock.errors import InputError, PenstockError, RunError


class _Penstock(LazyGroup):
    places: ClassVar[Mapping[str, str | Several]] = {
        "run": "run:run",
        "ps": "pipelines:ps",
        "stop": "pipelines:stop",
        "reset": "pipelines:reset",
        "check": "text:check",
        "fmt": "text:fmt",
        "explain": "text:explain",
        "inspect": "look:inspect",
        "describe": "look:describe",
        "connectors": "look:connectors",
        "formats": "look:formats",
        "init": "project:init",
        "demo": "project:demo",
        "doctor": "doctor:doctor",
        "flux": "flux:flux",
        "tap": "tap:tap",
        "top": "top:top",
        "ls": "streams:ls",
        "copy": "copy:copy",
        "stream": Several(
            "Looks after streams.",
            {"create": "streams:create", "describe": "streams:describe", "delete": "streams:delete"},
        ),
        "dlq": Several(
            "Dead letters: what could not be read or delivered.",
            {"ls": "dlq:ls", "show": "dlq:show", "replay": "dlq:replay"},
        ),
        "config": Several("Looks into YAML files.", {"show": "project:config_show"}),
    }


app = typer.Typer(
    name="penstock",
    cls=_Penstock,
    help="One SQL statement moves data from anywhere to anywhere, on Spark.\n\n"
    "Begin with: penstock demo, or penstock init my-project",
    epilog="Exit codes: 0 done, 1 failed while running, 2 what you wrote is wrong, 3 the environment is,"
    " 130 Ctrl-C. With --json, results are objects on stdout, one a line; an error is the last one,"
    " under the key 'error'.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from penstock import __version__

        render.text(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print tracebacks, as PENSTOCK_DEBUG=1 does.")
    ] = False,
) -> None:
    pass


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command line and answers with its exit code."""
    given = list(sys.argv[1:] if args is None else args) or ["--help"]
    as_json = "--json" in given
    try:
        code = app(given, prog_name="penstock", standalone_mode=False)
    except PenstockError as failure:
        return _failed(failure, as_json)
    except typer.TyperException as failure:
        context = getattr(failure, "ctx", None)
        hint = f"{context.command_path} --help" if context else None
        return _failed(InputError("usage", failure.format_message(), hint=hint), as_json)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as failure:
        if _debugging(given):
            raise
        return _failed(_surprise(failure), as_json)
    if code == INTERRUPTED:
        render.note("interrupted")
    return code if isinstance(code, int) else 0


def _failed(failure: PenstockError, as_json: bool) -> int:
    render.error(failure, as_json=as_json)
    return failure.exit_code


def _debugging(given: Sequence[str]) -> bool:
    return "--debug" in given or os.environ.get("PENSTOCK_DEBUG", "0") not in ("", "0")


def _surprise(failure: Exception) -> RunError:
    lines = str(failure).strip().splitlines()
    what = f"{type(failure).__name__}: {lines[0]}" if lines else type(failure).__name__
    return RunError(
        "unexpected",
        f"something that should not happen: {what}",
        hint="PENSTOCK_DEBUG=1, or penstock --debug ..., prints the traceback for a report",
    )
