"""Linear SVM for the area under the ROC curve, by cutting planes that serve a whole regularisation path.

With the mean hinge loss over the P = n+ n- pairs of a positive i and a negative j,

    R(w) = 1/P sum_ij max(0, 1 - (s_i - s_j)),        s = X w,
    J(w) = lam/2 |w|^2 + R(w).

**Separation.** Let positives lose 1/2 and negatives gain 1/2: the pair (i, j) has a loss where j now stands above i,
and the loss is the distance. One sort gives, for each row, the number of its opponents on the wrong side, hence R and a
subgradient X'c, where P c_i = -#{j above i} and P c_j = #{i below j} (Joachims, ICML 2005 and KDD 2006). Ties may fall
either way, since they have no loss.

**Planes.** Each subgradient a at a point w0 bounds the risk from below everywhere, R(w) >= b + a'w with
b = R(w0) - a'w0, whatever lam is. So planes are kept from one lambda to the next. The maximum of the bounds (R >= 0
among them) has the dual

    D(alpha) = b'alpha - |A'alpha|^2 / (2 lam),        alpha >= 0, sum alpha = 1,        w = -A'alpha / lam,

and J(best point) - D(alpha) is a certified gap. Where the dual's point is not better, a search along the segment from
the best point to it finds a better one and the plane to be added (Franc and Sonnenburg, JMLR 2009); it only needs
sorts.

**Stopping.** J(0) = 1 for every lambda, and for large lambda the minimum is hardly below it: a gap relative to J would
accept w = 0. The gap is therefore compared with min(max(J, 0.1), 1 - J). Where lambda is so large that no pair has a
margin above 1, w = m / lam is the exact solution, m being the difference of the class means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Tick

__all__ = ["Path", "hinge_path", "pairwise_hinge"]

_CAPACITY = 512  # planes that are kept
_ROUNDS = 10000  # planes for one lambda before it is given up
_SEARCH_STEPS = 8
_ROUNDING = 1e-14  # of a gap: rounding alone explains it
_STALLED = 1e-9  # gap at which rounding stops all progress
_SMALLEST = 1e-22  # lambda, for features of size 1, below which rounding alone keeps the dual from any bound


@dataclass(frozen=True)
class Path:
    """Solutions along a regularisation path."""

    coef: np.ndarray  # (n_features, n_lam), NaN where no gap could be certified: for lambdas below anything useful
    objective: np.ndarray  # (n_lam,), J at the solution
    gap: np.ndarray  # (n_lam,), certified upper bound of the objective's distance to its minimum
    n_planes: int  # separations with a new plane, over the whole path


def pairwise_hinge(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean hinge loss R over all pairs and its subgradient c with respect to the scores, in O(n log n).

    Both labels, -1 and +1, have to be present. c sums to zero; X'c is a subgradient with respect to the weights.
    """
    shifted = scores - 0.5 * y
    order = np.argsort(shifted)
    positive = y[order] > 0
    positives_below = np.cumsum(positive, dtype=np.float64)
    negatives_below = np.arange(1.0, len(y) + 1.0) - positives_below
    n_positive, n_negative = positives_below[-1], negatives_below[-1]
    counts = np.where(positive, negatives_below - n_negative, positives_below)
    c = np.empty(len(y))
    c[order] = counts / (n_positive * n_negative)
    # Where nothing is wrong, rounding may leave -0.
    return max(0.0, float(c @ shifted)), c


def hinge_path(X, y: np.ndarray, lam: np.ndarray, *, gap: float = 1e-3, tick: Tick = lambda: None) -> Path:
    """Minimise lam/2 |w|^2 plus the mean hinge loss over pairs, for every lambda, from the largest to the smallest.

    The certified ``gap`` is relative to min(max(J, 0.1), 1 - J). ``tick`` is called after each plane.
    """
    solver = _Solver(X, y, gap, tick)
    coef, objective, gaps = np.empty((X.shape[1], len(lam))), np.empty(len(lam)), np.empty(len(lam))
    for k in np.argsort(-lam, kind="stable"):
        coef[:, k], objective[k], gaps[k] = solver.solve(float(lam[k]))
    return Path(coef, objective, gaps, solver.n_planes)


@dataclass
class _Point:
    """Weights, their scores, and what separation says there."""

    w: np.ndarray
    scores: np.ndarray
    risk: float
    c: np.ndarray

    def objective(self, lam: float) -> float:
        return 0.5 * lam * float(self.w @ self.w) + self.risk


class _Solver:
    def __init__(self, X, y, gap, tick):
        self.X, self.y, self.gap, self.tick = X, y, gap, tick
        self.n_planes = 0
        n_features = X.shape[1]
        self.best = self._point(np.zeros(n_features), np.zeros(X.shape[0]))
        self.planes = _Planes(n_features)
        self._add_plane(self.best)
        self.difference = -self.planes.A[1]
        direction = np.asarray(X @ self.difference)
        self.smallest = _SMALLEST * float(np.square(abs(X).max()))
        self.exact_from = max(0.0, direction[y > 0].max() - direction[y < 0].min())

    def solve(self, lam: float) -> tuple[np.ndarray, float, float]:
        """Weights, objective and gap for one lambda; NaN if no gap can be certified."""
        failed = np.full(self.X.shape[1], np.nan), np.nan, np.inf
        if lam < self.smallest:
            return failed
        if lam >= self.exact_from:
            w = self.difference / lam
            self.best = self._point(w, np.asarray(self.X @ w))
            return w, self.best.objective(lam), 0.0
        for _ in range(_ROUNDS):
            w, lower = self.planes.maximise(lam, 0.1 * self._goal(lam))
            gap = self.best.objective(lam) - lower
            if gap <= self._goal(lam):
                break
            candidate = self._point(w, np.asarray(self.X @ w))
            if not self._add_plane(self._improve(candidate, lam), cutting=w):
                gap = self.best.objective(lam) - lower
                break
            self.tick()
        if gap > max(self._goal(lam), _STALLED):
            return failed
        return self.best.w, self.best.objective(lam), max(gap, 0.0)

    def _goal(self, lam: float) -> float:
        objective = self.best.objective(lam)
        return max(self.gap * min(max(objective, 0.1), 1.0 - objective), _ROUNDING)

    def _point(self, w, scores) -> _Point:
        return _Point(w, scores, *pairwise_hinge(scores, self.y))

    def _add_plane(self, at: _Point, cutting: np.ndarray | None = None) -> bool:
        """Add the plane at a point, unless rounding hides that it cuts off the weights ``cutting``."""
        # c'(shifts of 1/2) is the loss that the plane has at w = 0, without any cancellation.
        a, b = np.asarray(self.X.T @ at.c), 0.5 * float(np.abs(at.c).sum())
        if cutting is not None and b + float(a @ cutting) <= self.planes.height(cutting) + _ROUNDING:
            return False
        self.planes.add(a, b)
        self.n_planes += 1
        return True

    def _improve(self, candidate: _Point, lam: float) -> _Point:
        """Move the best point towards the candidate as far as it pays; return where to put the next plane.

        There the objective rises, or hardly falls any more, towards the candidate, so the plane cuts the candidate off.
        """
        best = self.best
        if candidate.objective(lam) < best.objective(lam):
            self.best = candidate
            return candidate
        move, move_scores = candidate.w - best.w, candidate.scores - best.scores

        def slope(point):
            return lam * float(point.w @ move) + float(point.c @ move_scores)

        if slope(best) >= 0.0:
            return best
        (low, low_slope), (high, high_slope) = (0.0, slope(best)), (1.0, slope(candidate))
        above = candidate
        for k in range(_SEARCH_STEPS):
            t = 0.5 * (low + high)
            if k % 2 == 0 and high_slope > 0.0:
                # The secant, but not too near either end: the slope has jumps.
                t = low + (high - low) * min(max(-low_slope / (high_slope - low_slope), 0.05), 0.95)
            point = self._point(best.w + t * move, best.scores + t * move_scores)
            if point.objective(lam) < self.best.objective(lam):
                self.best = point
            if slope(point) < 0.0:
                low, low_slope = t, slope(point)
            else:
                high, high_slope, above = t, slope(point), point
                if k >= 2:
                    break
        return above


class _Planes:
    """Lower bounds b + A w of the risk, the first of them zero, and the maximum of their dual on the simplex."""

    def __init__(self, n_features: int):
        self.A = np.zeros((32, n_features))
        self.b = np.zeros(32)
        self.gram = np.zeros((32, 32))
        self.alpha = np.zeros(32)
        self.last_used = np.zeros(32, dtype=np.int64)
        self.n = 1
        self.alpha[0] = 1.0
        self.age = 0

    def add(self, a: np.ndarray, b: float) -> None:
        if self.n == len(self.b):
            self._make_room()
        n = self.n
        self.A[n], self.b[n], self.alpha[n] = a, b, 0.0
        self.gram[n, : n + 1] = self.gram[: n + 1, n] = self.A[: n + 1] @ a
        self.last_used[n] = self.age
        self.n += 1

    def height(self, w: np.ndarray) -> float:
        """The highest of the bounds at ``w``."""
        return float((self.b[: self.n] + self.A[: self.n] @ w).max())

    def _make_room(self) -> None:
        """Twice the room, or, where there is enough of it, only the planes in use and the later half of the others."""
        keep = np.arange(self.n)
        if self.n >= _CAPACITY:
            in_use = self.alpha[: self.n] > 0.0
            in_use[0] = True
            idle = np.flatnonzero(~in_use)
            recent = idle[np.argsort(-self.last_used[idle], kind="stable")[: len(idle) // 2]]
            keep = np.sort(np.concatenate([np.flatnonzero(in_use), recent]))
        size = len(self.b) if len(keep) <= 0.75 * len(self.b) else 2 * len(self.b)
        n = len(keep)
        for name in ("A", "b", "alpha", "last_used"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
            new[:n] = old[keep]
            setattr(self, name, new)
        gram = np.zeros((size, size))
        gram[:n, :n] = self.gram[np.ix_(keep, keep)]
        self.gram, self.n = gram, n

    def maximise(self, lam: float, accuracy: float) -> tuple[np.ndarray, float]:
        """Maximise the dual by an active set, from the last solution; returns its point w and its value.

        Any alpha on the simplex gives a lower bound, so what rounding does to the search cannot make the bound wrong.
        """
        n = self.n
        self.age += 1
        b, gram, alpha = lam * self.b[:n], self.gram[:n, :n], self.alpha[:n]
        alpha, support = _maximum_on(list(np.flatnonzero(alpha > 0.0)), alpha, b, gram)
        for _ in range(20 * n + 100):
            gradient = b - gram[:, support] @ alpha[support]
            newcomer = int(np.argmax(gradient))
            if gradient[newcomer] - gradient @ alpha <= lam * accuracy or newcomer in support:
                break
            alpha, support = _maximum_on([*support, newcomer], alpha, b, gram)
            if newcomer not in support:  # as far as rounding can tell, it has nothing to add
                break
        self.alpha[:n] = alpha
        self.last_used[:n][alpha > 0.0] = self.age
        v = alpha[support] @ self.A[support]
        return -v / lam, float(self.b[support] @ alpha[support] - (v @ v) / (2.0 * lam))


def _maximum_on(support: list[int], alpha: np.ndarray, b: np.ndarray, gram: np.ndarray):
    """Maximise b'alpha - alpha' gram alpha / 2 over the simplex of ``support``, dropping planes that end at zero."""
    alpha = alpha.copy()
    while True:
        m = len(support)
        system = np.ones((m + 1, m + 1))
        system[:m, :m] = gram[np.ix_(support, support)]
        scale = max(np.trace(system[:m, :m]) / m, np.finfo(float).tiny)
        system[:m, :m] /= scale
        system[np.arange(m), np.arange(m)] += 1e-13
        system[m, m] = 0.0
        target = np.linalg.solve(system, np.append(b[support] / scale, 1.0))[:m]
        now = alpha[support]
        if (target > 0.0).all():
            alpha[support] = target / target.sum()
            return alpha, support
        falling = target <= 0.0
        ratios = np.where(falling, now / np.where(falling, now - target, 1.0), np.inf)
        first = int(np.argmin(ratios))
        now = np.maximum(now + min(ratios[first], 1.0) * (target - now), 0.0)
        now[first] = 0.0
        alpha[support] = now / now.sum()
        support = [plane for plane, value in zip(support, now) if value > 0.0]
