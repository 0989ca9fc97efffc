"""
Roles in a forum
================

**Who makes a discussion long, and do groups of users help to find out?** The data are a made-up
forum with a known truth: 50 users in five groups, 60 threads, each with about half of the users. A
thread's outcome is the average of what its participants bring, plus noise. The obvious rival is a
ridge regression of outcomes on participation, which knows no groups and no features.
"""

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import adjusted_rand_score

import dualview as dv

forum = dv.datasets.agreement(n_users=50, n_threads=60, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)

# %%
# Fit. The number of clusters is not given; the sampler runs until it has converged, or until 5,000
# draws of each chain.

model = dv.DualViewMixture(max_draws=5000, random_state=0).fit(forum.features, behavior)
print(model.posterior_.verdict())

# %%
# The picture: users by their features on the left, what each brings on the right. Black ticks are
# the truth.

axes = dv.plots.overview(model, truth=forum.latent)

# %%
# Which groups were found? The adjusted Rand index is 1 where found and true groups are the same, 0
# on average by chance.

rand = adjusted_rand_score(forum.labels, model.labels_)
print(f"{model.n_clusters_} clusters found, 5 are true; adjusted Rand index {rand:.2f}")

# %%
# The rival, on 100 later threads and on what each user brings.

ridge = RidgeCV(np.logspace(-4, 2, 30)).fit(forum.participation, forum.outcome)
predicted = model.predict_outcome(forum.test.participation)


def rmse(found, true):
    return np.sqrt(np.mean((found - true) ** 2))


ours = rmse(predicted.mean, forum.test.outcome), rmse(model.latent_, forum.latent)
brought = ridge.coef_ + ridge.intercept_  # shares of a thread sum to one, so the intercept is everybody's
theirs = rmse(ridge.predict(forum.test.participation), forum.test.outcome), rmse(brought, forum.latent)
print("RMSE         later threads   what users bring")
print(f"dualview     {ours[0]:13.2f} {ours[1]:18.1f}")
print(f"ridge        {theirs[0]:13.2f} {theirs[1]:18.1f}")

# %%
# The verdict.

winner = "dualview" if ours[0] < theirs[0] else "ridge"
print(f"{winner} predicts later threads better: the noise alone has a standard deviation of {np.sqrt(5):.2f}.")

# %%
# The case is favorable: the groups are the same in features and in behavior.
# :doc:`useless_features` shows what happens when features say nothing.
