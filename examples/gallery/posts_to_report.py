"""
From posts to a report
======================

**Which roles does a forum have, what do they contribute, and do they predict?** From posts to a
page for a colleague, in one command. The posts are simulated: members in four roles, with
heavy-tailed activity, sections and bots. The baselines see the same threads: a ridge regression on
participants and covariates, and a regression on the covariates alone.

This example needs ``pip install 'dualview[forum,cli]'``.
"""

import contextlib
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from dualview.cli import main

# %%
# The command, as a shell would run it. ``--example`` simulates the posts and writes them to
# ``run/posts.csv``; with a file of your own, write its name instead.

command = "forum --example --max-draws 8000 --quiet --out run"
folder = Path(tempfile.mkdtemp())
with contextlib.chdir(folder):
    assert main(command.split()) == 0

# %%
# The posts that went in:

posts = pd.read_csv(folder / "run" / "posts.csv")
print(f"{len(posts):,} posts in {posts['thread'].nunique():,} threads")
print(posts[["thread", "user", "time", "section", "text_length"]].head(3).to_string(index=False))

# %%
# The power of each role: the change in the log length of a thread if a member is among its first
# posts.

roles = json.loads((folder / "run" / "roles.json").read_text())["roles"]
people = pd.read_csv(folder / "run" / "users.csv")
print(f"{len(roles)} roles, {len(people)} members")
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for place, role in enumerate(roles):
    low, high = role["power"]["low"], role["power"]["high"]
    ax.plot([low, high], [place, place], color="#0072B2", linewidth=3)
    ax.plot(role["power"]["median"], place, "o", color="#0072B2")
ax.set_yticks(range(len(roles)), [f"{role['size']} members: {role['label']}" for role in roles])
ax.axvline(0.0, color="black", linewidth=0.8)
ax.set_xlabel("power: median and 95 % interval")

# %%
# The verdict on the last fifth of the threads, as written by the program:

evaluation = json.loads((folder / "run" / "evaluation.json").read_text())
print(evaluation["verdict"])

# %%
# ``run/report.html`` is one page with roles, powers, a map and a table of users, predictions and
# diagnostics. It opens offline. :doc:`/live-report` shows it.
