"""The books of runs while they run: who folds which run, what is folded, and what silence means."""
