"""Profile regression: one outcome for each person and a profile of exposures, simulated from known
truth."""
