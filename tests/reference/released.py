"""The protocol of the FTRL-AUC program, written out step by step from a description of it: slow, and easy to follow."""

from itertools import pairwise

import numpy as np


def released_split(y, trial, seed=17, imbalance=None):
    """Rows of training, validation and test, as lists."""
    np.random.seed(seed)  # noqa: NPY002 (the generator of the program)
    rows = list(range(len(y)))
    if imbalance is not None:
        for _ in range(10):
            np.random.permutation(len(y))  # noqa: NPY002
        wanted = int(imbalance * sum(label < 0 for label in y))
        rows, taken = [], 0
        for row, label in enumerate(y):
            if label < 0:
                rows.append(row)
            elif taken < wanted:
                rows.append(row)
                taken += 1
    permutations = [np.random.permutation(len(rows)) for _ in range(trial + 1)]  # noqa: NPY002
    visited = [rows[position] for position in permutations[trial]]
    n = len(rows)
    n_train, n_with_validation = int(n * 4.0 / 6.0), int(n * 5.0 / 6.0)
    return visited[:n_train], visited[n_train:n_with_validation], visited[n_with_validation:]


def released_auc(y, scores):
    """Corners of the ROC curve row by row, and the trapezoids between them except for the last."""
    order = sorted(range(len(y)), key=lambda row: -scores[row])  # Python's sort keeps the order of equals
    n_positive, n_negative = sum(label > 0 for label in y), sum(label < 0 for label in y)
    corners, true, false = [(0.0, 0.0)], 0, 0
    for row in order:
        true, false = true + (y[row] > 0), false + (y[row] < 0)
        corners.append((false / n_negative, true / n_positive))
    steps = list(pairwise(corners))[:-1]
    return sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in steps)
