"""A learner of a user; tests also write this file beside experiments, with learners that are derived from it."""

import numpy as np

from opauc_bench.learners import OnePassLearner
from opauc_bench.learners.base import State


class Hebb(OnePassLearner):
    """The sum of y x, times eta: it keeps the contract."""

    grid_axes = ("eta",)

    def __init__(self, eta=0.01):
        self.eta = eta

    def _begin(self, n_features, settings):
        return State(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))

    def _consume(self, state, X, y):
        self.behave(state, X)
        state.W += np.outer(X.T @ y, state.settings["eta"])

    def behave(self, state, X):
        """What a derived learner does with a chunk of rows."""


class OnData(Hebb):
    """Behaves on the three columns of the made-up rows that load it."""

    def behave(self, state, X):
        if X.shape[1] > 3:
            self.misbehave()
