"""
Five minutes
============

A forum has 50 members. For each member we know two features. For each of 60 threads we know who
took part, and the outcome: a number, such as the length of the thread. We want to know what each
member contributes, which kinds of members there are, and the outcome of the next thread.

This page needs ``pip install 'dualview[plots]'``. The forum is simulated, so we can compare the
answers with the truth.
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
# The features have one row per user. What users did is a *behavior*: here, outcomes shared by those
# who took part. A notebook shows its content as a small table.

behavior = dv.SharedOutcome(forum.participation, forum.outcome, users=names)
behavior

# %%
# Fit
# ---
#
# The number of clusters is inferred. Four chains run until they have converged, or reach a limit;
# the verdict says which. The first fit on a machine compiles for about half a minute.

model = dv.DualViewMixture(n_draws=500, engine=dv.Gibbs(max_draws=5000), random_state=0).fit(
    users, behavior
)
print(model.posterior_.verdict())

# %%
# Which kinds of members are there?
# ---------------------------------

found = users.assign(cluster=model.labels_, contributes=model.latent_)
summary = {
    "members": ("talk", "size"),
    "talk": ("talk", "mean"),
    "contributes": ("contributes", "median"),
}
print(found.groupby("cluster").agg(**summary).round(2))

# %%
# Clusters are numbered from the largest. A member alone in a cluster is unlike all others, or there
# are too few data to decide.
#
# What does each member contribute?
# ---------------------------------
#
# The posterior has draws of every unknown. Here are medians and 90 % intervals, and the truth:

low, high = model.posterior_.interval("latent", 0.9).T
members = pd.DataFrame(
    {"contributes": model.latent_, "low": low, "high": high, "truth": forum.latent}, index=names
)
print(members.head(5).round(0))
inside = ((members["low"] < members["truth"]) & (members["truth"] < members["high"])).mean()
print(f"{inside:.0%} of the 90 % intervals contain the truth.")

# %%
# In one picture: members by their features on the left, what they contribute on the right. Black
# ticks are the truth.

axes = dv.plots.overview(model, truth=forum.latent)

# %%
# What is the outcome of the next threads?
# ----------------------------------------
#
# Predict three future threads from who takes part in them:

predicted = model.predict_outcome(forum.test.participation[:3])
low, high = predicted.interval(0.9).T
print(
    pd.DataFrame(
        {"predicted": predicted.median, "low": low, "high": high, "outcome": forum.test.outcome[:3]}
    ).round(0)
)

# %%
# A new member
# ------------
#
# A new member with the features of ``user00`` has not been in a thread yet. Which cluster does this
# member belong to, and what will the member contribute?

new = users.loc[["user00"]].set_axis(["new"])
latent = model.predict_latent(new)
(low, high), median = latent.interval(0.9)[0], latent.median[0]
print(
    f"cluster {model.predict(new)[0]}, contributes {median:.0f}, with 90 % probability {low:.0f} "
    f"to {high:.0f}"
)

# %%
# Do the features help?
# ---------------------
#
# Compare with a model of the threads alone that has all members in one cluster. ``elpd`` is the sum
# over threads of the log density of each, predicted from all others; higher is better.

single = dv.DualViewMixture(1, n_draws=500, random_state=0).fit(None, behavior)
print(
    dv.compare({"dual": model, "single": single})[
        ["elpd", "difference", "difference_se", "note"]
    ].round(1)
)

# %%
# Does the model fit?
# -------------------
#
# Chains can agree on a wrong model. These checks compare the model with its data. Only the worst
# verdict is shown here.

checks = model.check(refit=False)
print(f"{len(checks.table)} checks, at worst: {checks.worst}")
print(checks.text().splitlines()[0])

# %%
# Save the result
# ---------------
#
# ``model.posterior_.save("run.nc")`` writes all draws to a file, and ``dv.load("run.nc")`` reads
# them.
# On the command line, ``dualview fit`` and ``dualview report`` do the same from files and write one
# HTML page.
#
# Next: look for data like yours in the :doc:`/gallery/index`, or read the :doc:`/guides`.
