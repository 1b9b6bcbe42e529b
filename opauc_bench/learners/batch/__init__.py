"""Batch learners: least squares, logistic regression, and support vector machines."""
