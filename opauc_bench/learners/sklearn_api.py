"""What scikit-learn expects of an estimator, without importing scikit-learn before one of its functions is used.

Importing it imports pandas and scipy.stats, and takes longer than training on a small file. scikit-learn itself goes by
methods, not by base classes: ``clone``, pipelines, searches and ``check_estimator`` take these estimators as its own.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["Estimator"]


class Estimator:
    """Parameters by name, as they were given to ``__init__``."""

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Names and defaults of the constructor's parameters, sorted by name."""
        if cls.__init__ is object.__init__:
            return {}
        return {name: parameter.default for name, parameter in sorted(inspect.signature(cls).parameters.items())}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of a parameter that is an estimator itself are included, as ``parameter__name``.
        """
        params = {name: getattr(self, name) for name in self._parameters()}
        if deep:
            for name, value in list(params.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    params |= {f"{name}__{inner}": of_inner for inner, of_inner in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; those of an estimator inside as ``parameter__name``.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        known = self._parameters()
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {own!r}; it has {', '.join(known)}")
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def __repr__(self) -> str:
        given = ((name, getattr(self, name, default), default) for name, default in self._parameters().items())
        changed = (f"{name}={value!r}" for name, value, default in given if repr(value) != repr(default))
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return estimator_html_repr(self)

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))
