"""What the sampler runs on: likelihoods of behaviours, what they say about users' latent vectors, and their own parameters."""
