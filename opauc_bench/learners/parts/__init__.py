"""What several learners, or long ones, are made of: rows, sums and steps. No learner is here."""
