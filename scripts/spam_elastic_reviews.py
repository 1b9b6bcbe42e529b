"""SPAM-l1/l2 on reviews with the xi and l2 behind the authors' result files, for docs/results.md.

    python scripts/spam_elastic_reviews.py        prints both curves over l1 and what is selected, in two minutes

figures/data_fig4.pkl in the history of the FTRL-AUC program (c9d3223) has, for each l1, the mean over ten splits of the
test AUC and of the share of weights that are not 0. The program takes xi and l2 from the results of SPAM-l2, which are
not in that history. They were found here from two of the means, the AUC of l1 = 1e-8 and of 1e-4: of the 22^10
combinations of xi (1 or 10) and l2 (1e-8 to 1e-4 by decades, 5e-4, 1e-3, 5e-3, .01, .05, .1) in ten splits, one has
both to 2e-10, and that one has them to 1e-14. The other 30 means follow, up to the order of two pairs of tied rows.
"""

from __future__ import annotations

import argparse

import numpy as np
from tabulate import tabulate

from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.evaluation.auc import released_auc_columns
from opauc_bench.evaluation.holdout import holdout_split
from opauc_bench.learners import get_learner

L1 = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 1, 3, 5)
FOUND = [  # xi and l2 of each split
    *((10, 1e-3), (10, 1e-3), (10, 1e-6), (1, 1e-3), (10, 1e-4)),
    *((10, 1e-3), (10, 1e-4), (10, 1e-3), (10, 1e-4), (10, 1e-4)),
]
# By l1, in the authors' file.
AUC = (
    *(0.838796496106, 0.838800554267, 0.838829842592, 0.839018830791, 0.835477298421, 0.788814912007),
    *(0.691897874141, 0.672037225990, 0.547080962337, 0.531778305784, 0.515576314017, 0.509279053679),
    *(0.501909247958, 0.501909247958, 0.501909247958, 0.501909247958),
)
SHARE = (
    *(0.735581273636, 0.735580851567, 0.734681844273, 0.476460148231, 0.088682426729, 0.014197351094),
    *(0.003357349068, 0.001564821380, 0.000327103593, 0.000047060710, 0.000001055173, 0.000000211035),
    *(0.0, 0.0, 0.0, 0.0),
)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    data = prepare(load_catalogue()["reviews"], Sources.from_environment())
    auc, share, selected = np.empty((10, len(L1))), np.empty((10, len(L1))), []
    for trial, (xi, l2) in enumerate(FOUND):
        split = holdout_split(
            data.y,
            trial=trial,
            dataset="reviews",
            shares=(4, 1, 1),
            split="released",
            imbalance=None,
            seed=17,
            time=None,
        )
        grid = {"xi": np.full(len(L1), float(xi)), "l1": np.array(L1), "l2": np.full(len(L1), l2)}
        learner = get_learner("spam_elastic")(variant="released")
        weights = np.asarray(learner.fit_grid(data.X, data.y, grid, order=split.train))
        auc[trial], validation = (
            released_auc_columns(data.y[rows], np.asarray(data.X[rows] @ weights))
            for rows in (split.test, split.validation)
        )
        share[trial] = (weights != 0).mean(axis=0)
        selected.append(np.argmax(validation))
    rows = zip(L1, auc.mean(axis=0), AUC, share.mean(axis=0), SHARE)
    print(tabulate(rows, ["l1", "AUC", "theirs", "share", "theirs"], floatfmt=("g", ".9f", ".9f", ".9f", ".9f")))
    chosen = auc[np.arange(10), selected]
    print(f"\nselected by the validation rows: {chosen.mean():.5f} ± {chosen.std():.5f} (theirs .84272)")


if __name__ == "__main__":
    main()
