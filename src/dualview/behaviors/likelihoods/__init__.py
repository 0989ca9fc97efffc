"""What the sampler runs on: likelihoods of behaviors, what they say about users' latent vectors,
and their own parameters."""
