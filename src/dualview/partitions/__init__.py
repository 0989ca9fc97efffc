"""Priors of partitions: the weight of each cluster, and of a new one."""
