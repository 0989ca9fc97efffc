"""Predictions: users of the fit and new ones, imputation, observations and users left out."""
