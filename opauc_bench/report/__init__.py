"""From finished folds to what a reader sees: result tables, and their comparison with published values."""
