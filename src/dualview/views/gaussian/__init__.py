"""The Gaussian view: one vector per user, a normal component per cluster."""
