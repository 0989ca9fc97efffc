"""The Gaussian view: one vector per user, a normal component per cluster."""

from dualview.views.gaussian import splitting  # noqa: F401  (its functions are registered)
