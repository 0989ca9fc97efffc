"""Compiled numerics that know nothing of the model: random numbers, small linear algebra, slice
sampling, regression."""
