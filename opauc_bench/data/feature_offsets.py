"""Features of svmlight rows that lie far from 0: what is subtracted from each while it is learnt, and its scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..kernels import njit
from .row_encoder import LARGEST, offsets_of, scales_of

__all__ = ["FeatureOffsets"]

_FAR = 2.0  # scales from 0, of a median
_MOST_CELLS = 1 << 22  # of the first rows that are looked at
_LISTED = 3  # features in a note


class FeatureOffsets(NamedTuple):
    """Medians and scales of the features that are nonzero in most of the first rows.

    Steps on a feature far from 0 are along the intercept: its differences are hardly learnt. If the median of any
    feature lies more than two of its scales from 0, all are taken as columns of a table. Otherwise, as in most text,
    they are learnt as they are.
    """

    features: np.ndarray  # (n,), int32, increasing, from 0; empty where features are learnt as they are
    offsets: np.ndarray  # (n,)
    scales: np.ndarray  # (n,)

    @classmethod
    def of_first_rows(cls, X: Any) -> FeatureOffsets:
        """Find them on the first rows, a CSR matrix; see `offsets_of` and `scales_of`."""
        features, counts = np.unique(X.indices, return_counts=True)  # few, where the largest index may be 2^31
        common = features[counts > X.shape[0] / 2].astype(np.int32)
        values = _columns(X[: 1 + _MOST_CELLS // max(1, len(common))], common)
        offsets = offsets_of(values)
        medians, scales = np.array(offsets, dtype=np.float64), np.array(scales_of(values, offsets))
        if not (np.abs(medians) > _FAR * scales).any():
            common, medians, scales = common[:0], medians[:0], scales[:0]
        return cls(common, medians, scales)

    def applied(self, X: Any) -> Any:
        """Rows, a CSR matrix with sorted indices, less the offsets and divided by the scales."""
        from scipy.sparse import csr_matrix

        if not len(self.features):
            return X
        shape = X.shape[0], max(X.shape[1], int(self.features[-1]) + 1)
        room = X.nnz + X.shape[0] * len(self.features)  # at most
        data, indices, indptr = np.empty(room), np.empty(room, np.int32), np.empty(X.shape[0] + 1, np.int32)
        n_entries = _shifted(X.data, X.indices, X.indptr, *self, data, indices, indptr)
        shifted = csr_matrix((data[:n_entries], indices[:n_entries], indptr), shape=shape)
        shifted.has_canonical_format = True
        return shifted

    def note(self, zero_based: bool) -> str:
        """A sentence on what is done, with the farthest features; empty where nothing is."""
        if not len(self.features):
            return ""
        far = np.argsort(-np.abs(self.offsets) / self.scales, kind="stable")[:_LISTED]
        first = 0 if zero_based else 1
        shown = ", ".join(f"{self.features[k] + first} around {self.offsets[k]:.3g}" for k in sorted(far.tolist()))
        n = f"{len(self.features):,} feature{'s' * (len(self.features) > 1)}"
        return f"{n} centred and scaled while they are learnt, since some lie far from 0 for their spread ({shown})"


def _columns(X: Any, features: np.ndarray) -> np.ndarray:
    """Some columns of a CSR matrix, (n_rows, len(features)), in memory that does not depend on their number in all."""
    columns = np.zeros((X.shape[0], len(features)))
    if len(features):
        position = np.minimum(np.searchsorted(features, X.indices), len(features) - 1)
        found = features[position] == X.indices
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        columns[rows[found], position[found]] = X.data[found]
    return columns


@njit()
def _shifted(data, indices, indptr, features, offsets, scales, new_data, new_indices, new_indptr):
    """Fill the arrays of a CSR matrix with (x - offset) / scale of the features, without zeros; return its size."""
    entry = 0
    new_indptr[0] = 0
    for row in range(len(indptr) - 1):
        e, end, k = indptr[row], indptr[row + 1], 0
        while e < end or k < len(features):
            if k == len(features) or (e < end and indices[e] < features[k]):
                value, feature = data[e], indices[e]
                e += 1
            else:
                value, feature = -offsets[k], features[k]
                if e < end and indices[e] == feature:
                    value += data[e]
                    e += 1
                value = min(max(value / scales[k], -LARGEST), LARGEST)
                k += 1
            if value != 0.0:
                new_data[entry] = value
                new_indices[entry] = feature
                entry += 1
        new_indptr[row + 1] = entry
    return entry
