"""opauc-bench doctor."""

from __future__ import annotations

from .app import app
from .options import find_sources


@app.command()
def doctor() -> int:
    """Check this installation: versions, cache, mirrors, compilers, cores."""
    from ..commands.listings import examine

    lines, good = examine(find_sources(None, False))
    print("\n".join(lines))
    return 0 if good else 1
