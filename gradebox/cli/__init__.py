"""The command line. A command imports its dependencies when it runs, so that `--help` is fast."""

import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from gradebox.cli import (
    audit,
    batches,
    budget,
    compare,
    endpoints,
    environments,
    feedback,
    graders,
    keys,
    models,
    outcome_table,
    pages,
    projects,
    run,
    score,
    server,
    spending,
    transfer,
    validate,
)
from gradebox.cli.command import Command, client_command
from gradebox.cli.output import fail
from gradebox.errors import ConnectionFailed, GradeboxError, GraderWarning

app = typer.Typer(
    help="Runs untrusted Python graders over LLM completions.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich's boxes would show each flag with a value of type bool
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_OF_MACHINE = (server.serve, server.api, server.worker, server.doctor, server.selftest)
_OF_CLIENT: tuple[Callable[..., None], ...] = (
    *(validate.validate, score.score, compare.compare, compare.agreement),
    *(audit.audit, spending.spending, pages.pages),
)
app.command(cls=Command)(run.run)
for each in _OF_CLIENT:
    client_command(app)(each)
for each in _OF_MACHINE:
    app.command(cls=Command)(each)
client_command(graders.app, "export")(transfer.export)
client_command(graders.app, "import")(transfer.import_)
client_command(batches.app, "table")(outcome_table.show_table)
client_command(batches.app)(feedback.feedback)
app.add_typer(graders.app, name="graders")
app.add_typer(batches.app, name="batches")
app.add_typer(environments.app, name="environments")
app.add_typer(models.app, name="models")
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(budget.app, name="budget")
app.add_typer(keys.app, name="keys")
app.add_typer(projects.app, name="projects")


def main() -> None:
    """Runs the command in the arguments. Exits 1 if the service refused the request, 2 if it could not be reached."""
    warnings.simplefilter("ignore", GraderWarning)  # commands print the checks' warnings themselves
    try:
        app()
    except ConnectionFailed as error:
        fail(error, 2)
    except GradeboxError as error:
        fail("\n".join([str(error), *getattr(error, "__notes__", ())]), 1)
    except OSError as error:  # a file does not exist any more, or the disk is full
        fail(error, 2)


def _print_version(asked: bool) -> None:
    if asked:
        import gradebox

        sys.stdout.write(f"gradebox {gradebox.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
