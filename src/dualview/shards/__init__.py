"""Data in a folder of shards: users with their features, threads with their participants and
outcomes."""

from dualview.shards.folder import Shards

__all__ = ["Shards"]
