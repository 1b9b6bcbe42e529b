"""Learners with sparse weights: the FTRL-AUC family, and saddle point methods."""
