"""Engines: how states succeed each other, and the chains they make."""
