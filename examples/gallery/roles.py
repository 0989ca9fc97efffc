"""
Roles in a forum
================

**Who makes a discussion long, and do groups of users help to find out?** The data are a simulated
forum with a known truth: 50 users in five groups, and 60 threads, each with about half of the
users. A thread's outcome is the average of its participants' coefficients, plus noise. The obvious
baseline is a ridge regression of outcomes on participation, which uses neither groups nor features.
"""

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import adjusted_rand_score

import dualview as dv

forum = dv.datasets.agreement(n_users=50, n_threads=60, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)

# %%
# Fit. The number of clusters is inferred. The sampler runs until it has converged, or for 5,000
# draws per chain.

model = dv.DualViewMixture(engine=dv.Gibbs(max_draws=5000), random_state=0).fit(
    forum.features, behavior
)
print(model.posterior_.verdict())

# %%
# The picture: users by their features on the left, their latent coefficients on the right. Black
# ticks are the truth.

axes = dv.plots.overview(model, truth=forum.latent)

# %%
# The estimated groups. The adjusted Rand index is 1 if estimated and true groups are the same, and
# 0 on average by chance.

rand = adjusted_rand_score(forum.labels, model.labels_)
print(
    f"estimated clusters: {model.n_clusters_}, true: {len(set(forum.labels))}; adjusted Rand "
    f"index {rand:.2f}"
)

# %%
# The baseline, on later threads and on the users' coefficients.

ridge = RidgeCV(np.logspace(-4, 2, 30)).fit(forum.participation, forum.outcome)
predicted = model.predict_outcome(forum.test.participation)


def rmse(found, true):
    return np.sqrt(np.mean((found - true) ** 2))


ours = rmse(predicted.mean, forum.test.outcome), rmse(model.latent_, forum.latent)
coefficients = (
    ridge.coef_ + ridge.intercept_
)  # the weights of a thread sum to one, so the intercept belongs to all users
theirs = (
    rmse(ridge.predict(forum.test.participation), forum.test.outcome),
    rmse(coefficients, forum.latent),
)
print("RMSE         later threads       coefficients")
print(f"dualview     {ours[0]:13.2f} {ours[1]:18.1f}")
print(f"ridge        {theirs[0]:13.2f} {theirs[1]:18.1f}")

# %%
# The verdict.

winner = "dualview" if ours[0] < theirs[0] else "ridge"
print(
    f"{winner} predicts later threads better. (The noise alone has a standard deviation of "
    f"{np.sqrt(5):.2f}.)"
)

# %%
# The case is favorable: the groups are the same in features and in behavior.
# :doc:`useless_features` shows what happens if features are unrelated to behavior.
