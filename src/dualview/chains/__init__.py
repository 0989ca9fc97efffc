"""Chains of any engine: their schedule, storage, checkpoints and progress."""
