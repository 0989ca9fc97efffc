"""
Views that disagree
===================

**Who looks like one role and acts like another?** Simulated data with a known truth: 90 users look
like one of three roles by two features, and each has six scores. A fifth of them choose the role
they act like at random. ``agreement="learned"`` gives every user a cluster by features and one by
behavior. The obvious baseline clusters twice, by features and by mean score, and names the users
whose two clusters differ. It is told that there are three roles; dualview is not.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix

import dualview as dv

rng = np.random.default_rng(0)
n_users = 90
looks = np.arange(n_users) % 3
acts = np.where(rng.random(n_users) < 0.8, looks, rng.integers(0, 3, n_users))
features = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])[looks] + rng.normal(size=(n_users, 2))
level = np.array([-3.0, 0.0, 3.0])[acts] + 0.3 * rng.normal(size=n_users)
user = np.repeat(np.arange(n_users), 6)
scores = level[user] + 2.0 * rng.normal(size=len(user))
truly = looks != acts
print(f"{truly.sum()} of {n_users} users act like another role than they look.")

# %%
# Fit. The share of users who agree is learned with everything else.

behavior = dv.UserRegression(user, np.ones((len(user), 1)), scores)
model = dv.DualViewMixture(
    agreement="learned", n_draws=500, engine=dv.Gibbs(max_draws=10_000), random_state=0
).fit(features, behavior)
post = model.posterior_
print(post.verdict())
low, high = post.interval("agreement")
print(
    f"share of users who agree: {np.median(post['agreement']):.2f}, 95 % interval {low:.2f} to "
    f"{high:.2f}"
)

# %%
# Users by the cluster they look like (rows) and the one they act like (columns):

print(post.crosstab())

# %%
# The baseline: two clusterings, matched so that as many users as possible agree.

mean_score = np.bincount(user, scores) / np.bincount(user)
by_features = KMeans(3, n_init=10, random_state=0).fit_predict(features)
by_score = KMeans(3, n_init=10, random_state=0).fit_predict(mean_score[:, None])
table = confusion_matrix(by_features, by_score)
matched = linear_sum_assignment(-table)[1]
named = {
    "two clusterings": by_score != matched[by_features],
    "dualview": np.zeros(n_users, dtype=bool),
}
named["dualview"][post.disagreements()["user"]] = True

# %%
# The picture: users by their features, and by their mean score. Filled points are named by
# dualview, crosses are those who truly act otherwise.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
place = features[:, 1] - features[:, 0]  # tells the three groups apart
for role, marker in enumerate("os^"):
    for who, face in ((named["dualview"], "#D55E00"), (~named["dualview"], "white")):
        mine = who & (looks == role)
        ax.scatter(
            place[mine], mean_score[mine], marker=marker, s=40, facecolor=face, edgecolor="0.3"
        )
ax.scatter(
    place[truly], mean_score[truly], marker="x", s=30, color="black", label="truly acts otherwise"
)
ax.scatter([], [], marker="o", color="#D55E00", label="named by dualview")
ax.set(xlabel="looks: second feature minus the first", ylabel="mean score")
ax.legend()

# %%
# The verdict: users who were missed and users who were named wrongly.

wrong = {}
for name, found in named.items():
    missed, falsely = int((truly & ~found).sum()), int((found & ~truly).sum())
    wrong[name] = missed + falsely
    print(
        f"{name:<16} found {int((truly & found).sum())}, missed {missed}, named wrongly {falsely}"
    )
gap = wrong["two clusterings"] - wrong["dualview"]
word = (
    "makes as many errors as"
    if gap == 0
    else "makes fewer errors than"
    if gap > 0
    else "makes more errors than"
)
print(f"dualview {word} two clusterings: {wrong['dualview']} against {wrong['two clusterings']}.")

# %%
# Whom the scores leave in doubt, dualview does not name: it needs a probability of one half.
# :doc:`/agreement` measures what the assumption costs when views do agree.
