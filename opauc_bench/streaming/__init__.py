"""Train a learner on a file of any length, and score files with the model: one pass, constant memory."""
