"""The moves of a step, one file each: run(rng, state) takes a working state to the next."""
