"""What a pass remembers as a tree of arrays, numbers and text, and back: a pass continues in another process.

A tree holds dicts with text as keys, lists, arrays whose type is not object, numbers, text, booleans and None. It can
be stored without pickle. It names no classes: these come from a fresh state of the same learner, whose values are
replaced by those of the tree.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Any

import numpy as np

from .rows import aligned_zeros

__all__ = ["as_tree", "from_tree", "is_writeable"]

_PLAIN = (bool, int, float, str, type(None))


def as_tree(value: Any) -> Any:
    """Return a value as a tree; arrays are not copied.

    Parameters
    ----------
    value : object
        A plain value, an array, a random generator, a tuple, list or dict of such values, or an object with such
        values as attributes.

    Raises
    ------
    TypeError
        If it contains anything else.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value
    if isinstance(value, np.random.Generator):
        return as_tree(value.bit_generator.state)
    if isinstance(value, (tuple, list)):
        return [as_tree(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: as_tree(one) for key, one in value.items()}
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return value.item()
    if hasattr(value, "__dict__") and not callable(value):
        return {key: as_tree(one) for key, one in vars(value).items()}
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def from_tree(fresh: Any, tree: Any, resizable: Collection[str] = (), name: str = "state") -> Any:
    """Return the value that a tree was made of.

    Parameters
    ----------
    fresh : object
        A value of the same kind. Its arrays, generators and attributes are changed in place, where the shape is the
        same.
    tree : object
        From `as_tree`.
    resizable : collection of str
        Names of arrays, or of what contains them, which need not have the shape that they have in ``fresh``:
        ``attribute``, or ``attribute.attribute``.
    name : str
        For messages.

    Raises
    ------
    ValueError
        If the tree does not fit: another name, type or shape.
    """
    return _read(fresh, tree, tuple(f".{one}" for one in resizable), name, False)


def is_writeable(value: Any, seen: set[int] | None = None) -> bool:
    """Whether all arrays that a value contains can be changed; those that joblib has mapped into memory cannot.

    Looks into what `as_tree` looks into; other values, which a learner of users may have, are taken as they are.
    """
    if isinstance(value, np.ndarray):
        return value.flags.writeable
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, ModuleType) or callable(value):
        return True
    seen.add(id(value))
    if not isinstance(value, (list, tuple)):
        value = list((value if isinstance(value, dict) else getattr(value, "__dict__", {})).values())
    return all(is_writeable(part, seen) for part in value)


def _read(fresh: Any, tree: Any, resizable: tuple[str, ...], name: str, loose: bool) -> Any:
    """As `from_tree`; shapes are not compared where they are ``loose``."""
    loose = loose or name.endswith(resizable)
    if type(fresh) in _PLAIN:
        if type(tree) is not type(fresh):
            raise _misfit(name, type(fresh).__name__, tree)
        return tree
    if isinstance(fresh, np.ndarray):
        return _array(fresh, tree, loose, name)
    if isinstance(fresh, np.random.Generator):
        kind = type(fresh.bit_generator).__name__
        state = _read(as_tree(fresh), tree, resizable, name, loose)
        try:
            fresh.bit_generator.state = state
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} is not the state of a {kind} generator ({error})") from None
        return fresh
    if isinstance(fresh, (tuple, list)):
        if not isinstance(tree, list) or len(tree) != len(fresh):
            raise _misfit(name, f"a list of {len(fresh)}", tree)
        values = [_read(one, tree[i], resizable, f"{name}.{i}", loose) for i, one in enumerate(fresh)]
        return type(fresh)(*values) if hasattr(fresh, "_fields") else type(fresh)(values)
    members = fresh if isinstance(fresh, dict) else vars(fresh)
    if not isinstance(tree, dict) or set(tree) != set(members):
        raise _misfit(name, f"the entries {', '.join(sorted(members))}", sorted(tree) if tree else tree)
    new = {key: _read(one, tree[key], resizable, f"{name}.{key}", loose) for key, one in members.items()}
    if isinstance(fresh, dict):
        return new
    members.update(new)
    return fresh


def _array(fresh: np.ndarray, tree: Any, loose: bool, name: str) -> np.ndarray:
    if not isinstance(tree, np.ndarray) or tree.dtype != fresh.dtype or tree.ndim != fresh.ndim:
        raise _misfit(name, f"an array of {fresh.ndim} axes of {fresh.dtype}", tree)
    if tree.shape == fresh.shape:
        fresh[...] = tree  # in place: another attribute may be the same array
        return fresh
    if not loose:
        raise ValueError(f"{name}: expected the shape {fresh.shape}, got {tree.shape}")
    copy = aligned_zeros(*tree.shape) if tree.dtype == np.float64 else np.empty(tree.shape, tree.dtype)
    copy[...] = tree
    return copy


def _misfit(name: str, expected: str, tree: Any) -> ValueError:
    got = f"an array of {tree.ndim} axes of {tree.dtype}" if isinstance(tree, np.ndarray) else repr(tree)[:80]
    return ValueError(f"{name}: expected {expected}, got {got}")
