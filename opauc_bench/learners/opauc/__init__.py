"""OPAUC with full covariances, and its approximations for high dimensions."""
