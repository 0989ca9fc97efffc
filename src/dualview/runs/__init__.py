"""Runs on disk: fitted, resumed, summarized, ranked."""
