"""The app, to which the other modules add their commands."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperArgument, TyperGroup

__all__ = ["app", "data_app", "learners_app", "model_app"]


class _Group(TyperGroup):
    """Commands whose help has no Python types of arguments, such as ``list[str]``."""

    def get_command(self, ctx, cmd_name):
        command = super().get_command(ctx, cmd_name)
        for parameter in command.params if command else ():
            if isinstance(parameter, TyperArgument):
                parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
        return command


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reproduce the papers on one-pass AUC optimisation, and compare your own learners.\n\n"
    "Start with: opauc-bench run quickstart",
    epilog="Exit codes: 0 all done, 1 some tasks failed, 2 bad config, 3 data missing, 130 interrupted.",
)
data_app = typer.Typer(cls=_Group, no_args_is_help=True, help="Datasets: list, fetch, verify, describe.")
learners_app = typer.Typer(cls=_Group, no_args_is_help=True, help="Learners: list them, describe them, check your own.")
model_app = typer.Typer(cls=_Group, no_args_is_help=True, help="Models that train has written: describe them.")
app.add_typer(model_app, name="model")
app.add_typer(data_app, name="data")
app.add_typer(learners_app, name="learners")


def _version(requested: bool) -> None:
    if requested:
        from .. import __version__

        print(f"opauc-bench {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
