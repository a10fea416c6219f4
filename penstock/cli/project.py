"""Commands about a project: `init`, `demo` and `config show`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import render
from penstock.cli.arguments import Json
from penstock.cli.run import execute_all
from penstock.errors import InputError, SetupError

STATEMENT = "examples/quickstart.sql"
RESULT = "out/revenue"
IGNORED = ".penstock/\nout/\n"
PROJECT = """\
# Settings of this project: 'penstock config show penstock.yaml' prints them with where they come from.
name: quickstart

# Where Spark runs: local[*], spark://host:7077, yarn, k8s://...
master: local[*]

# Names that statements may use: SELECT * FROM events
data_sources:
  events:
    type: files
    path: examples/data/events.jsonl
"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")] = Path(),
    as_json: Json = False,
) -> None:
    """Makes a project with an example that runs.

    Example: penstock init my-project
    """
    made = make_project(folder)
    if as_json:
        render.emit({"folder": str(folder), "files": made})
        return
    for name in made:
        render.text(f"made {folder / name}")
    enter = "" if folder == Path() else f"cd {folder} && "
    render.text(f"next: {enter}penstock run {STATEMENT}")


def make_project(folder: Path) -> list[str]:
    """Writes the example project into a folder; nothing at all when one of its files is there."""
    contents = {"penstock.yaml": PROJECT.encode()} | _examples()
    if not os.path.lexists(folder / ".gitignore"):
        contents[".gitignore"] = IGNORED.encode()
    for name in contents:
        if os.path.lexists(folder / name):
            raise InputError(
                "file-exists",
                f"{folder / name} is there already",
                hint="choose another folder: penstock init DIR",
            )
    try:
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    except OSError as failure:
        raise SetupError(
            "unwritable-folder",
            f"cannot write into {folder}: {failure.strerror}",
            hint="choose another folder",
        ) from None
    return list(contents)


def _examples() -> dict[str, bytes]:
    """The shipped statements and their data; they stand beside the package in a source tree."""
    package = Path(__file__).parent.parent
    folder = next((f for f in (package / "examples", package.parent / "examples") if f.is_dir()), None)
    if folder is None:
        raise SetupError("no-examples", "this installation has no examples", hint="install penstock again")
    files = sorted((*folder.glob("*.sql"), *folder.glob("data/*.*")))
    return {f"examples/{file.relative_to(folder)}": file.read_bytes() for file in files}


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", help="A new folder for it; a temporary one unless given.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Runs an example: events, joined and added up.

    Example: penstock demo
    """
    from penstock.api import Running, Session

    folder = (folder or Path(tempfile.mkdtemp(prefix="penstock-demo-"))).absolute()
    make_project(folder)
    statement = (folder / STATEMENT).read_text(encoding="utf-8")
    if not as_json:
        render.text(f"{statement.rstrip()}\n")
    with _inside(folder), Session(folder) as session:
        execute_all(session, statement, STATEMENT, Running(), as_json=as_json)
    if as_json:
        render.emit({"folder": str(folder), "result": str(folder / RESULT)})
    else:
        render.text(_next(folder))


def _next(folder: Path) -> str:
    by_product = "SELECT product, count(*) AS events FROM events GROUP BY product"
    return f"""
The result is in {folder / RESULT}. Try next:
  cd {folder}
  penstock inspect {RESULT}
  penstock run -e "{by_product}"
  penstock run -e "{by_product} INTO 'out/products.csv'"
  penstock explain {STATEMENT}
  penstock describe files"""


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Paths in statements are relative to the working folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def config_show(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A project's, source's or sink's YAML file.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Prints a merged YAML file, and where its values come from.

    Example: penstock config show penstock.yaml
    """
    from penstock.config import show

    shown = show(file)
    if as_json:
        render.emit(shown.to_dict())
        return
    for note in shown.notes:
        render.note(f"note: {note}")
    render.text(shown.render().rstrip("\n"))
