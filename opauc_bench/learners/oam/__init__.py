"""Online AUC maximisation with buffers (OAM)."""
