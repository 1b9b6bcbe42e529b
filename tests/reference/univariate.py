"""Online gradient descent on univariate losses (Kotlowski, Dembczynski and Huellermeier, ICML 2011)."""

import numpy as np

LOSSES = {
    "exp": lambda m: np.exp(-m),
    "log": lambda m: np.log(1 + np.exp(-m)),
    "squ": lambda m: (1 - m) ** 2 / 2,
}
DERIVATIVES = {
    "exp": lambda m: -np.exp(-m),
    "log": lambda m: -1 / (1 + np.exp(m)),
    "squ": lambda m: -(1 - m),
}


def univariate(X, y, loss, eta, *, weights="none", intercept=False):
    """One pass of w <- w - eta omega grad l(y (w'x + b)) over the rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    loss : {'exp', 'log', 'squ'}
    eta : float
    weights : {'none', 'balanced', 'prior'}
        From the class frequencies so far, this row included.
    intercept : bool

    Returns
    -------
    w : ndarray of shape (n_features,)
    b : float
    """
    w, b = np.zeros(X.shape[1]), 0.0
    for t, (x, label) in enumerate(zip(X, y)):
        n, n_label = t + 1, np.count_nonzero(y[: t + 1] == label)
        omega = {"none": 1.0, "balanced": n / (2 * n_label), "prior": 2 * n_label / n}[weights]
        slope = omega * DERIVATIVES[loss](label * (w @ x + b))
        w = w - eta * slope * label * x
        if intercept:
            b = b - eta * slope * label
    return w, b
