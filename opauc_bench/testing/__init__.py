"""The contract suite: what every learner has to do, as checks that `learners check` and the tests run."""
