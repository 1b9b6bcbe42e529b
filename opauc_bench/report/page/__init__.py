"""The results as one page that needs nothing else: no network, and no script for what does not move."""

from .render import PageContent, render_page

__all__ = ["PageContent", "render_page"]
