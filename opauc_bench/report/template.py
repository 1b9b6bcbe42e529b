"""The Jinja templates of the HTML table and of the page. Everything that they print is escaped."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["render_svg", "render_template"]


def render_template(name: str, **values: Any) -> str:
    """Render a template of the folder ``templates``."""
    return _environment().get_template(name).render(values)


def render_svg(name: str, **values: Any) -> Markup:
    """Render a template of an SVG drawing, for use in another template."""
    from markupsafe import Markup

    return Markup(render_template(name, **values).replace("\n", ""))


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = _number
    return environment


def _number(value: float) -> str:
    """A coordinate with at most two decimals, the same on every machine."""
    return f"{round(float(value), 2) + 0.0:.2f}".rstrip("0").rstrip(".")
