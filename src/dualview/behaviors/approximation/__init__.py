"""q of latent vectors and of the parameters of observations, for the variational engine."""
