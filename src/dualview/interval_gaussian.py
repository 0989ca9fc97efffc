"""Mean and covariance of one Gaussian, each cell of whose draws is exact, missing or known to an interval, (M14)."""
