"""Runs on disk: fitted, resumed, summarised, ranked."""
