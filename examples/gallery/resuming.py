"""
Resuming a run
==============

**A run is killed. What is lost?** A fit with ``checkpoint=`` saves its draws and its state every
second. Here a process is killed while it works, by a signal that it cannot catch, and the fit is
started again. The baseline is to start from the beginning.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dualview as dv

folder = Path(tempfile.mkdtemp())
engine = dv.Gibbs(n_warmup=1000, thin=10, checkpoint_interval=0.1)
settings = {"engine": engine, "n_draws": 500}
length = engine.n_warmup + settings["n_draws"] * engine.thin  # iterations of a chain
program = f"""
import sys
import dualview as dv
from dualview import Gibbs

forum = dv.datasets.agreement(n_users=30, n_threads=100, n_clusters=3, seed=0)
dv.DualViewMixture(**{settings}, checkpoint=sys.argv[1]).fit(
    forum.features, dv.SharedOutcome(forum.participation, forum.outcome)
)
"""


def saved(run):
    """Iterations of the first chain that are saved on disk, from the names of its files."""
    return max(
        (int(path.name.split("-")[1]) for path in (run / "chain-0").glob("*-*.h5")), default=0
    )


# %%
# Start the program, wait until a third of a chain is saved, and kill it.

worker = subprocess.Popen([sys.executable, "-c", program, str(folder / "killed")])
while saved(folder / "killed") < length // 3 and worker.poll() is None:
    time.sleep(0.02)
worker.kill()
print(f"killed before the end: {worker.wait() != 0}")
kept = saved(folder / "killed")

# %%
# Fit again with the same data, settings and folder: the run continues. For comparison, make a run
# that is never interrupted.

forum = dv.datasets.agreement(n_users=30, n_threads=100, n_clusters=3, seed=0)
behavior = dv.SharedOutcome(forum.participation, forum.outcome)
resumed = dv.DualViewMixture(**settings, checkpoint=folder / "killed").fit(forum.features, behavior)
uninterrupted = dv.DualViewMixture(**settings).fit(forum.features, behavior)
same = all(
    np.array_equal(resumed.posterior_[name], uninterrupted.posterior_[name])
    for name in resumed.posterior_.names
)
print(resumed.posterior_.verdict())
print(f"draws of the resumed and the uninterrupted run are the same, bit for bit: {same}")

# %%
# The picture: the number of clusters along the first chain of both runs. The lines coincide.

iterations = engine.n_warmup + engine.thin * np.arange(1, settings["n_draws"] + 1)
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
for model, style in (
    (uninterrupted, {"color": "0.6", "linewidth": 3}),
    (resumed, {"color": "#0072B2", "linewidth": 0.8}),
):
    ax.plot(iterations, model.posterior_["n_clusters"][0], **style)
ax.axvspan(0, kept, color="#009E73", alpha=0.15)
ax.text(kept, ax.get_ylim()[1], " saved before the kill", ha="left", va="top", fontsize=8)
ax.set(xlim=(0, length), xlabel="iteration", ylabel="clusters in a draw")

# %%
# The verdict. From the beginning, all iterations would be made again.

print(f"{kept:,} of {length:,} iterations of the first chain were saved and not made again.")

# %%
# On the command line, use ``dualview fit … --out run`` and, after any interruption, ``dualview
# resume run``.
