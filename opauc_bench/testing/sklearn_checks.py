"""scikit-learn's own checks of a learner, as one check of the contract."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from sklearn.utils.estimator_checks import check_estimator

from ..errors import place_of

__all__ = ["scikit_learn_says"]


def scikit_learn_says(learner, declared: Mapping[str, str]) -> tuple[str, str]:
    """Run scikit-learn's checks.

    Parameters
    ----------
    learner : estimator
    declared : mapping of str to str
        Checks that it cannot pass, with the reason for each.

    Returns
    -------
    failures : str
        How many failed, and a line for each thing that went wrong; empty if none did.
    note : str
        How many passed, and which failed as declared.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(learner, expected_failed_checks=dict(declared), on_fail=None, on_skip=None)
    n_passed = sum(r["status"] == "passed" for r in results)
    excepted = [f"not {r['check_name']}: {declared[r['check_name']]}" for r in results if r["status"] == "xfail"]
    failed = [r for r in results if r["status"] == "failed"]
    failures = f"{len(failed)} failed:\n  {_grouped(failed)}" if failed else ""
    return failures, "; ".join([f"{n_passed} checks", *excepted])


def _grouped(failed: list[dict[str, Any]]) -> str:
    """One line for each thing that went wrong, however many checks it made fail."""
    causes: dict[str, list[str]] = {}
    for result in failed:
        causes.setdefault(_message(result["exception"]), []).append(result["check_name"])
    return "\n  ".join(
        f"{', '.join(names[:2])}{f' and {len(names) - 2} more' if len(names) > 2 else ''}: {cause}"
        for cause, names in causes.items()
    )


def _message(error: BaseException) -> str:
    return str(error).strip() or f"{type(error).__name__} ({place_of(error, None)})"
