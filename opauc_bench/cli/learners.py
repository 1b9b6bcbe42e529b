"""opauc-bench learners: learners."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import learners_app


@learners_app.command("list")
def learners_list() -> None:
    """List all learners with their parameters and grid axes."""
    from ..commands.listings import list_learners

    print(list_learners())


@learners_app.command("show")
def learners_show(name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")]) -> None:
    """Describe a learner: its parameters, their defaults and what they mean."""
    from ..commands.listings import describe_learner

    print(describe_learner(name))


@learners_app.command("check")
def learners_check(name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")]) -> int:
    """Run the contract suite over a learner: the properties that the runner relies on."""
    from ..learners import get_learner
    from ..testing.contract import check_learner

    results = check_learner(get_learner(name))
    printed = set()
    for result in results:
        print(f"{'ok  ' if result.passed else 'FAIL'}  {result.name}")
        if not result.passed:
            print(f"      {'the same as above' if result.detail in printed else result.detail}")
            printed.add(result.detail)
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0
