"""The points at which a reconstructor queries the models: public records, or points drawn from their distribution."""

import numpy as np

from bayesrecon.errors import BayesreconError

BOX, PUBLIC_RECORDS, NORMAL, LOCAL = "box", "public", "normal", "local"
WHERE = {
    BOX: "the box",
    PUBLIC_RECORDS: "public records",
    NORMAL: "a normal distribution",
    LOCAL: "around public records",
}


def check_queries(queries: str, count: int) -> None:
    """Check the options of `points_of`."""
    if queries not in WHERE or count < 1:
        *others, last = WHERE
        raise BayesreconError(
            f"queries={queries!r}, count={count}: expected {', '.join(others)} or {last}, and a positive count"
        )


def points_of(queries: str, count: int, public: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The query points, `(m, p)`.

    Args:
        queries: "public" for the public records themselves, or the distribution of `count` random points: uniform in
            the "box" of the public records, the "normal" distribution with their mean and covariance, or "local" for
            their kernel density estimate with Scott's bandwidth `sd m^(-1 / (p + 4))` (Scott 1992, rule 6.42).
        count: number of random points.
        public: features of the public records, `(m, p)`.
        rng: random generator.
    """
    size, width = public.shape
    if queries == PUBLIC_RECORDS:
        return public
    if queries == BOX:
        return rng.uniform(public.min(axis=0), public.max(axis=0), (count, width))
    if queries == NORMAL:
        return rng.multivariate_normal(public.mean(axis=0), np.cov(public.T).reshape(width, width), count)
    noise = rng.normal(size=(count, width)) * public.std(axis=0) * size ** (-1 / (width + 4))
    return public[rng.integers(size, size=count)] + noise
