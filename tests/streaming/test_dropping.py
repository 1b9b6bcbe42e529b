"""The rule by which settings are dropped, against the rule written setting by setting."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.streaming.dropping import is_checkpoint, settings_to_keep


def slow_rule(aucs, before, errors, sizes, n_rows, n_at_first):
    """Numbers of the settings that are kept."""
    bounds = np.cumsum([0, *sizes]) if n_rows < 131_072 else [0, len(aucs)]
    groups = [range(start, stop) for start, stop in itertools.pairwise(bounds)]
    champions = [max(group, key=lambda k: aucs[k]) for group in groups]  # the first of equal ones
    good = []
    for group, best in zip(groups, champions):
        for k in group:
            gap, gap_before = aucs[best] - aucs[k], before[best] - before[k]
            certainly_worse = gap > 3.0 * errors[best][k] - 0.0005
            not_catching_up = gap > 0.75 * gap_before - 0.0005
            if k == best or not (certainly_worse and not_catching_up):
                good.append(k)
    room = max(math.ceil(n_at_first * 8192 / n_rows), len(champions))
    by_rank = sorted(good, key=lambda k: (k not in champions, -aucs[k]))
    return set(by_rank[:room])


@given(st.data())
def test_as_the_rule_setting_by_setting(data):
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    n_live = sum(sizes)
    # Coarse values, so that there are ties and gaps near the bounds.
    values = st.lists(st.integers(0, 40), min_size=n_live, max_size=n_live)
    aucs, before = (0.9 + np.array(data.draw(values)) / 4096 for _ in range(2))
    if data.draw(st.booleans()):
        before = np.full(n_live, np.nan)  # there was no checkpoint before
    errors = np.array(data.draw(st.lists(values, min_size=n_live, max_size=n_live))) / 8192
    n_rows = 1 << data.draw(st.integers(10, 22))
    n_at_first = n_live + data.draw(st.integers(0, 100))
    kept = settings_to_keep(aucs, before, lambda k: errors[k], sizes=sizes, n_rows=n_rows, n_at_first=n_at_first)
    assert set(np.flatnonzero(kept)) == slow_rule(aucs, before, errors, sizes, n_rows, n_at_first)


@pytest.mark.parametrize(("n_rows", "expected"), [(512, False), (1024, True), (1536, False), (2048, True), (0, False)])
def test_checkpoints(n_rows, expected):
    assert is_checkpoint(n_rows) is expected
