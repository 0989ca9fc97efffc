"""The paper's experiments, run again: cells, the grid that runs them, what is measured, and the
report. It uses the package and is no part of it: ``python -m reproduction --help``."""
