"""Held-out cells of public tables: how well their values are predicted, by dualview and by
others."""
