"""``python -m opauc_bench`` is ``opauc-bench``."""

import sys
from os.path import dirname, realpath

from .cli import main

if __name__ == "__main__":
    # Python puts the working directory first. Files of learners could import their neighbours from there, whose text
    # does not identify the results.
    if not sys.flags.safe_path and sys.path[0] and realpath(sys.path[0]) != dirname(dirname(realpath(__file__))):
        del sys.path[0]
    main()
