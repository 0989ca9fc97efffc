"""The paper's experiments, run again: cells, the grid that runs them, what is measured, and the
report."""
