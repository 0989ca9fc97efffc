"""
Five minutes
============

A forum has 50 members. For each we know two features. We have 60 threads, who took part in each,
and what came of it: a number, such as its length. We want to know what each member brings, which
kinds of members there are, and what will come of the next thread.

``pip install 'dualview[plots]'`` is all this page needs. The forum is made up, so that the answers
can be compared with the truth.
"""

import pandas as pd

import dualview as dv

forum = dv.datasets.agreement(n_users=50, n_threads=60, seed=0)
names = [f"user{u:02d}" for u in range(50)]
users = pd.DataFrame(forum.features, columns=["talk", "listen"], index=names)
print(users.head(3).round(2))

# %%
# Two tables go in
# ----------------
#
# The features have a row per user. What users did is a *behavior*: here, outcomes shared by those
# who took part. A notebook shows what it holds.

behavior = dv.SharedOutcome(forum.participation, forum.outcome, users=names)
behavior

# %%
# Fit
# ---
#
# The number of clusters is not given. Four chains run until they have converged, or until a limit;
# the verdict says which. The first fit on a machine compiles for a minute.

model = dv.DualViewMixture(n_draws=500, max_draws=5000, random_state=0).fit(users, behavior)
print(model.posterior_.verdict())

# %%
# Which kinds of members are there?
# ---------------------------------

found = users.assign(cluster=model.labels_, brings=model.latent_)
print(found.groupby("cluster").agg(members=("brings", "size"), talk=("talk", "mean"), brings=("brings", "median")).round(2))

# %%
# Clusters are numbered from the largest. A member of a cluster of one fits in nowhere, or there is
# too little to tell.
#
# What does each member bring?
# ----------------------------
#
# The posterior has draws of everything. Its median and a 90 % interval, beside the truth:

low, high = model.posterior_.interval("latent", 0.9).T
members = pd.DataFrame({"brings": model.latent_, "low": low, "high": high, "truth": forum.latent}, index=names)
print(members.head(5).round(0))
inside = ((members["low"] < members["truth"]) & (members["truth"] < members["high"])).mean()
print(f"{inside:.0%} of the 90 % intervals hold the truth.")

# %%
# In one picture: members by their features on the left, what they bring on the right, with black
# ticks for the truth.

axes = dv.plots.overview(model, truth=forum.latent)

# %%
# What will come of the next threads?
# -----------------------------------
#
# Three threads to come, as rows of who takes part:

predicted = model.predict_outcome(forum.test.participation[:3])
low, high = predicted.interval(0.9).T
print(pd.DataFrame({"predicted": predicted.median, "low": low, "high": high, "came": forum.test.outcome[:3]}).round(0))

# %%
# Somebody new
# ------------
#
# A new member with the features of ``user00`` has not been in a thread yet. Which cluster, and what
# will this member bring?

new = users.loc[["user00"]].set_axis(["new"])
brings = model.predict_latent(new)
(low, high), median = brings.interval(0.9)[0], brings.median[0]
print(f"cluster {model.predict(new)[0]}, brings {median:.0f}, with 90 % probability {low:.0f} to {high:.0f}")

# %%
# Were the features worth it?
# ---------------------------
#
# Compare with a model that sees the threads alone and has everybody in one cluster. ``elpd`` is the
# log score of each thread predicted from all others, added up; more is better.

single = dv.DualViewMixture(1, n_draws=500, random_state=0).fit(None, behavior)
print(dv.compare({"dual": model, "single": single})[["elpd", "difference", "difference_se", "note"]].round(1))

# %%
# Does the model fit?
# -------------------
#
# Chains can agree on a model that is wrong. These checks hold it against its data; only the worst is
# shown here.

checks = model.check(refit=False)
print(f"{len(checks.table)} checks, at worst: {checks.worst}")
print(checks.text().splitlines()[0])

# %%
# Keep it
# -------
#
# ``model.posterior_.save("run.nc")`` writes all draws to a file, and ``dv.load("run.nc")`` reads them.
# From files and without Python, ``dualview fit`` and ``dualview report`` do the same and end in one HTML
# page.
#
# Next: the :doc:`/gallery/index` has your kind of data, or one like it; :doc:`/guides` say how.
