"""The program: its commands, and what an error, Ctrl-C or a surprise turn into."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli import dlq, doctor, look, pipelines, project, render, run, text
from penstock.errors import InputError, PenstockError, RunError

INTERRUPTED = 130

app = typer.Typer(
    name="penstock",
    help="One SQL statement moves data from anywhere to anywhere, on Spark.\n\n"
    "Begin with: penstock demo, or penstock init my-project",
    epilog="Exit codes: 0 done, 1 failed while running, 2 what you wrote is wrong, 3 the environment is,"
    " 130 Ctrl-C. With --json, results are objects on stdout, one a line; an error is the last one,"
    " under the key 'error'.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
config = typer.Typer(help="Looks into YAML files.")
config.command("show")(project.config_show)
letters = typer.Typer(help="Dead letters: what could not be read or delivered.")
letters.command("ls")(dlq.ls)
letters.command("show")(dlq.show)
letters.command("replay")(dlq.replay)

app.command()(run.run)
app.command()(pipelines.ps)
app.command()(pipelines.stop)
app.command()(pipelines.reset)
app.command()(text.check)
app.command()(text.fmt)
app.command()(text.explain)
app.command()(look.inspect)
app.command()(look.describe)
app.command()(look.connectors)
app.command()(look.formats)
app.command()(project.init)
app.command()(project.demo)
app.command()(doctor.doctor)
app.add_typer(letters, name="dlq")
app.add_typer(config, name="config")


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
