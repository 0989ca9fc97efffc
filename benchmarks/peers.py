"""The same model in general-purpose samplers, for comparison where they are installed: JAGS, and
NUTS of NumPyro.

Two features, one latent coefficient and shared outcomes, (M1) to (M9), in working units: each
view's constants are (0, I) and s_y ~ G(1, 1). Neither tool has the Chinese restaurant: the
Dirichlet process is its stick-breaking form cut off at N_COMPONENTS, where the empty components
stay, with parameters from their prior. A stick breaks at 1 - exp(-e) with e ~ Exp(α), which is
Beta(1, α) without its infinite density at 1.

Both write the Wisharts of the feature view as gammas and a normal, exactly. With p1 the precision
of the first feature, p2 and b the precision and the slope of the second given the first, S = [[p1 +
b² p2, -b p2], [-b p2, p2]]; with w1 the variance of the first, w2 and g the variance and the slope
of the second given the first, W_0 = [[w1, g w1], [g w1, w2 + g² w1]]. Then

    (M3) p1 ~ G(β - 1, 1/(β w1)),  p2 ~ G(β, 1/(β w2)),  b | p2 ~ N(g, 1/(β w1 p2))
    (M6) w1 ~ G(2, 1/2),           w2 ~ G(1, 1/2),       g | w1 ~ N(0, 1/(2 w1))

JAGS needs this: it has no sampler for W_0 as a parameter of dwish, and its dwish refuses D - 1 < β
< D. All but β then has a conjugate conditional. To install: ``apt-get install jags``; ``pip install
numpyro``.
"""

import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Scalars = dict[str, Array]

N_COMPONENTS = 20

JAGS_MODEL = """
model {
  inv_alpha ~ dgamma(0.5, 0.5)
  alpha <- 1 / inv_alpha
  log_left[1] <- 0
  for (k in 1:(K - 1)) {
    e[k] ~ dexp(alpha)
    log_left[k + 1] <- log_left[k] - e[k]
    weight[k] <- exp(log_left[k]) * (1 - exp(-e[k]))
  }
  weight[K] <- exp(log_left[K])

  m0[1:2] ~ dmnorm(zero, eye)
  R0[1:2, 1:2] ~ dwish(2 * eye, 2)
  w1 ~ dgamma(1, 1)
  g ~ dnorm(0, 2 * w1)
  w2 ~ dgamma(0.5, 1)
  r ~ dgamma(0.5, 1)
  beta <- 1 + 1 / r
  for (k in 1:K) {
    m[k, 1:2] ~ dmnorm(m0, R0)
    p1[k] ~ dgamma((beta - 1) / 2, beta * w1 / 2)
    p2[k] ~ dgamma(beta / 2, beta * w2 / 2)
    b[k] ~ dnorm(g, p2[k] * beta * w1)
  }

  fm0 ~ dnorm(0, 1)
  fR0 ~ dgamma(0.5, 0.5)
  fw ~ dgamma(0.5, 0.5)
  fr ~ dgamma(0.5, 0.5)
  fbeta <- 1 / fr
  for (k in 1:K) {
    fm[k] ~ dnorm(fm0, fR0)
    fp[k] ~ dgamma(fbeta / 2, fbeta * fw / 2)
  }

  for (u in 1:U) {
    z[u] ~ dcat(weight)
    a1[u] ~ dnorm(m[z[u], 1], p1[z[u]])
    a2[u] ~ dnorm(m[z[u], 2] + b[z[u]] * (a1[u] - m[z[u], 1]), p2[z[u]])
    f[u] ~ dnorm(fm[z[u]], fp[z[u]])
  }
  sy ~ dgamma(0.5, 0.5)
  for (t in 1:T) {
    y[t] ~ dnorm(inprod(P[t, ], f), sy)
  }
}
"""


def jags(
    features: Array, design: Array, outcome: Array, n_warmup: int, n_draws: int, seed: int
) -> tuple[Scalars, float] | None:
    """Draws by name, each (n_draws,), and CPU seconds without compilation; None where there is no
    JAGS.

    JAGS draws each node from its conditional, the sticks, α and both β by slices. Its module glm
    can draw the latent coefficients as one block; short trials showed no gain in effective samples
    per second, so it is left out. The first half of the warm-up adapts the slices.

    Parameters
    ----------
    features : array (U, 2)
    design : array (T, U)
    outcome : array (T,)
    """
    if shutil.which("jags") is None:
        return None
    _check(features, n_warmup)
    data = {
        "a1": features[:, 0],
        "a2": features[:, 1],
        "P": design,
        "y": outcome,
        "zero": np.zeros(2),
        "eye": np.eye(2),
    }
    sizes = {"K": N_COMPONENTS, "U": len(features), "T": len(outcome)}
    prepare = [
        'model in "model.bug"',
        'data in "data.R"',
        "compile",
        'parameters in "init.R"',
        "initialize",
    ]
    sample = [
        f"update {n_warmup}",
        *(f"monitor {name}" for name in ("alpha", "sy", "f", "z")),
        f"update {n_draws}",
        "coda *",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.bug").write_text(JAGS_MODEL)
        lines = [f"{key} <- {_r_dump(value)}" for key, value in data.items()] + [
            f"{key} <- {n}" for key, n in sizes.items()
        ]
        (folder / "data.R").write_text("\n".join(lines) + "\n")
        (folder / "init.R").write_text(
            f'.RNG.name <- "base::Mersenne-Twister"\n.RNG.seed <- {seed}\n'
        )
        seconds_to_prepare = _run_jags(folder, prepare)
        seconds = _run_jags(folder, prepare + sample) - seconds_to_prepare
        draws = _read_coda(folder)
    latent = np.stack([draws[f"f[{u + 1}]"] for u in range(len(features))], axis=1)
    z = np.stack([draws[f"z[{u + 1}]"] for u in range(len(features))], axis=1)
    return _scalars(draws["alpha"], draws["sy"], latent, z), seconds


def numpyro_nuts(
    features: Array, design: Array, outcome: Array, n_warmup: int, n_draws: int, seed: int
) -> tuple[Scalars, float, int] | None:
    """Draws by name, each (n_draws,), CPU seconds without compilation, and divergences; None where
    there is no NumPyro.

    One chain of NUTS with its default settings, assignments summed out, then drawn from their
    conditional. Switches JAX to 64 bits for the whole process. Divergences are draws to distrust.

    Parameters
    ----------
    features : array (U, 2)
    design : array (T, U)
    outcome : array (T,)
    """
    try:
        import jax  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import numpyro  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from numpyro.infer import NUTS  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    _check(features, n_warmup)
    numpyro.enable_x64()
    data = tuple(jax.numpy.asarray(part) for part in (features, design, outcome))
    kernel = NUTS(_numpyro_model)
    key, key_of_z = jax.random.split(jax.random.PRNGKey(seed))
    start = kernel.init(key, n_warmup, None, data, {})

    def step(state: Any, _: None) -> Any:
        state = kernel.sample(state, data, {})
        return state, (state.z, state.diverging)

    run = (
        jax.jit(lambda state: jax.lax.scan(step, state, None, length=n_warmup + n_draws)[1])
        .lower(start)
        .compile()
    )
    began = time.process_time()
    states = jax.block_until_ready(run(start))
    seconds = time.process_time() - began
    free, diverging = jax.tree.map(lambda values: values[n_warmup:], states)
    draws = jax.vmap(kernel.postprocess_fn(data, {}))(free)
    z = jax.random.categorical(key_of_z, draws["log_weights"])
    scalars = _scalars(*(np.asarray(part) for part in (draws["alpha"], draws["sy"], draws["f"], z)))
    return scalars, seconds, int(diverging.sum())


def _check(features: Array, n_warmup: int) -> None:
    if features.ndim != 2 or features.shape[1] != 2:
        raise ValueError(
            f"The peers are written for features of shape (U, 2); got {features.shape}."
        )
    if n_warmup < 2:
        raise ValueError(f"n_warmup must be at least 2; got {n_warmup}.")


def _scalars(
    alpha: Array, noise_precision: Array, latent: Array, z: NDArray[np.generic]
) -> Scalars:
    """What is compared, from alpha and noise_precision (n_draws,), latent and z (n_draws, U)."""
    ordered = np.sort(z, axis=1)
    middle = latent.shape[1] // 2
    return {
        "alpha": alpha,
        "n_clusters": 1.0 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1),
        "noise_precision": noise_precision,
        "mean latent": latent.mean(axis=1),
        "latent[0]": latent[:, 0],
        f"latent[{middle}]": latent[:, middle],
    }


def _r_dump(values: Array) -> str:
    """A vector or matrix as R writes it, columns first."""
    numbers = "c(" + ", ".join(repr(float(x)) for x in values.ravel(order="F")) + ")"
    return (
        numbers
        if values.ndim == 1
        else f"structure({numbers}, .Dim = c({values.shape[0]}L, {values.shape[1]}L))"
    )


def _run_jags(folder: Path, commands: list[str]) -> float:
    """CPU seconds of JAGS with these commands."""
    (folder / "script.cmd").write_text("\n".join([*commands, "exit"]) + "\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["jags", "script.cmd"], cwd=folder, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or "error" in done.stderr.lower():
        raise RuntimeError(f"JAGS failed:\n{done.stdout}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _read_coda(folder: Path) -> Scalars:
    """Draws by JAGS' names: the index has name, first and last line; the chain has iteration and
    value."""
    values = np.loadtxt(folder / "CODAchain1.txt", usecols=1, ndmin=1)
    rows = (line.split() for line in (folder / "CODAindex.txt").read_text().splitlines())
    return {name: values[int(first) - 1 : int(last)] for name, first, last in rows}


def _numpyro_model(features: Any, design: Any, outcome: Any) -> None:
    """The model, with names as in JAGS_MODEL; q1, q2, c are of R_0 what p1, p2, b are of S_k."""
    import jax
    import jax.numpy as jnp  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import numpyro
    import numpyro.distributions as dist  # type: ignore[import-not-found, import-untyped, unused-ignore]

    each = jnp.ones(N_COMPONENTS)

    def gamma(name: str, shape: Any, rate: Any) -> Any:
        return numpyro.sample(name, dist.Gamma(shape, rate))

    def normal(name: str, mean: Any, precision: Any) -> Any:
        return numpyro.sample(name, dist.Normal(mean, precision**-0.5))

    def log_normal_density(x: Any, mean: Any, precision: Any) -> Any:
        return dist.Normal(mean, precision**-0.5).log_prob(x)

    alpha = numpyro.deterministic("alpha", 1 / gamma("inv_alpha", 0.5, 0.5))
    e = numpyro.sample("e", dist.Exponential(alpha * each[1:]))
    log_left = jnp.concatenate([jnp.zeros(1), -jnp.cumsum(e)])
    log_prior = log_left.at[:-1].add(jnp.log(-jnp.expm1(-e)))

    m01, m02 = normal("m01", 0.0, 1.0), normal("m02", 0.0, 1.0)
    q1, q2 = gamma("q1", 0.5, 1.0), gamma("q2", 1.0, 1.0)
    c = normal("c", 0.0, 2 * q2)
    w1, w2 = gamma("w1", 1.0, 1.0), gamma("w2", 0.5, 1.0)
    g = normal("g", 0.0, 2 * w1)
    beta = 1 + 1 / gamma("r", 0.5, 1.0)
    m1 = normal("m1", m01, q1 * each)
    m2 = normal("m2", m02 + c * (m1 - m01), q2)
    p1 = gamma("p1", each * (beta - 1) / 2, beta * w1 / 2)
    p2 = gamma("p2", each * beta / 2, beta * w2 / 2)
    b = normal("b", g, beta * w1 * p2)

    fm0, fR0 = normal("fm0", 0.0, 1.0), gamma("fR0", 0.5, 0.5)
    fw = gamma("fw", 0.5, 0.5)
    fbeta = 1 / gamma("fr", 0.5, 0.5)
    fm = normal("fm", fm0, fR0 * each)
    fp = gamma("fp", each * fbeta / 2, fbeta * fw / 2)

    f = numpyro.sample("f", dist.ImproperUniform(dist.constraints.real, (features.shape[0],), ()))
    a1, a2 = features[:, :1], features[:, 1:]
    log_weights = log_prior + log_normal_density(f[:, None], fm, fp)
    log_weights += log_normal_density(a1, m1, p1) + log_normal_density(a2, m2 + b * (a1 - m1), p2)
    numpyro.deterministic("log_weights", log_weights)
    numpyro.factor("users", jax.scipy.special.logsumexp(log_weights, axis=1).sum())
    sy = gamma("sy", 0.5, 0.5)
    numpyro.sample("y", dist.Normal(design @ f, sy**-0.5), obs=outcome)
