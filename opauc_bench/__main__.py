"""``python -m opauc_bench`` is ``opauc-bench``."""

import os
import sys
from pathlib import Path

# Otherwise files of learners could import their neighbours, whose text does not identify the results.
if sys.path[0] == os.getcwd() != str(Path(__file__).resolve().parents[1]):
    del sys.path[0]

from .cli import main

if __name__ == "__main__":
    main()
