"""How good fits are: fits compared by their predictions and stacked, cross-validation,
simulation-based calibration."""
