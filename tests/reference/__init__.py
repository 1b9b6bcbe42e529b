"""Slow, readable oracles: the papers' algorithms, one example at a time, in plain NumPy."""
