"""``python -m opauc_bench`` is ``opauc-bench``."""

from .cli import main

if __name__ == "__main__":
    main()
