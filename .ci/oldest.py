"""Print the lower bounds of pyproject.toml as constraints for pip: the oldest supported versions."""

import re
import tomllib
from itertools import chain
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in [*project["dependencies"], *chain(*project["optional-dependencies"].values())]:
    if bound := re.match(r"([\w-]+)(?:\[[\w,-]+\])?>=([\w.]+)", requirement):
        print(f"{bound[1]}=={bound[2]}")
