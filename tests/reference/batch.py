"""Batch objectives written out over every pair or every example, and minimisers that share nothing with ours."""

import io
import json
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from reference.peers import golden_file

FIXTURE = Path(__file__).parents[1] / "fixtures" / "svm_perf.json"


def pairs(X, y):
    """Differences of all positives and all negatives, shape (n_positive * n_negative, n_features)."""
    return np.array([positive - negative for positive in X[y > 0] for negative in X[y < 0]])


def pairwise_hinge_objective(w, X, y, lam):
    return 0.5 * lam * w @ w + np.mean([max(0.0, 1.0 - z @ w) for z in pairs(X, y)])


def pairwise_hinge_minimiser(X, y, lam):
    """liblinear on the explicit pairs, each with both signs so that there are two classes."""
    Z = pairs(X, y)
    model = LinearSVC(
        loss="hinge", fit_intercept=False, C=1.0 / (2 * lam * len(Z)), tol=1e-9, max_iter=5_000_000, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        return model.fit(np.vstack([Z, -Z]), np.repeat([1, -1], len(Z))).coef_[0]


def pairwise_squared_hinge(w, Z, lam):
    """lam/2 |w|^2 + mean over pairs of max(0, 1 - w'z)^2, and its gradient; ``Z`` are the differences of all pairs."""
    losses = np.maximum(0.0, 1.0 - Z @ w)
    return 0.5 * lam * w @ w + np.mean(losses**2), lam * w - 2.0 * losses @ Z / len(Z)


def pairwise_squared_hinge_minimiser(Z, lam):
    """L-BFGS on the explicit pairs."""
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 100_000}
    return minimize(pairwise_squared_hinge, np.zeros(Z.shape[1]), (Z, lam), "L-BFGS-B", jac=True, options=options).x


def pairwise_squared_minimiser(X, y, lam):
    """lam/2 |w|^2 + 1/2 mean over pairs of (1 - w'z)^2."""
    Z = pairs(X, y)
    return np.linalg.solve(lam * np.eye(X.shape[1]) + Z.T @ Z / len(Z), Z.mean(axis=0))


def univariate_objective(loss, w, b, X, y, lam, weights, loss_scale):
    """lam/2 |w|^2 + mean or sum of the weighted losses, one example at a time."""
    n, total = len(y), 0.0
    for x, label in zip(X, y):
        n_own = np.sum(y == label)
        omega = {"none": 1.0, "balanced": n / (2 * n_own), "prior": 2 * n_own / n}[weights]
        margin = label * (x @ w + b)
        total += omega * (0.5 * (1 - margin) ** 2 if loss == "squared" else np.log1p(np.exp(-margin)))
    return 0.5 * lam * w @ w + (total / n if loss_scale == "mean" else total)


def slopes(function, point, step=1e-6):
    """Gradient by central differences."""
    unit = np.eye(len(point))
    return np.array([(function(point + step * e) - function(point - step * e)) / (2 * step) for e in unit])


def svm_perf_runs(golden=False):
    """Runs of the real SVM-perf: dicts of name, X, y, C, eps, w, Jw, Jstar.

    They come from our fixture, or from ``golden_svmperf.json``; see `golden_file`.
    """
    content = golden_file("golden_svmperf.json") if golden else json.loads(FIXTURE.read_text())
    runs = []
    for name, data in content["datasets"].items():
        n_features = data.get("n_features", data.get("d"))
        X, y = load_svmlight_file(io.BytesIO(data["libsvm"].encode()), n_features=n_features)
        runs += [{"name": name, "X": X.toarray(), "y": y, **run} for run in data["runs"]]
    return runs
