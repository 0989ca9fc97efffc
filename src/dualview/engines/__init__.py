"""Engines: how states succeed each other. ``base`` is the door that chains come through; each
engine has a folder."""
