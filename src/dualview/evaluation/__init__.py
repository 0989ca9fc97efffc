"""How good fits are: fits compared by their predictions, cross-validation, simulation-based
calibration."""
