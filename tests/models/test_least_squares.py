import numpy as np
import pytest

from bayesrecon.domains import BINARY, REAL, Domain
from bayesrecon.posteriors.printed.powers import WithoutCorrelations
from bayesrecon.types import Field


def printed(value, digits):
    """The number as printed, with half the unit of its last digit."""
    if digits is None:
        return float(value), 0.0
    text = f"{value:.{digits - 1}e}"
    return float(text), 0.5 * 10.0 ** (int(text.split("e")[1]) - digits + 1)


def table(x, y, digits=None):
    design = np.column_stack([np.ones(len(y)), x])
    b = np.linalg.lstsq(design, y, rcond=None)[0]
    scale = np.sum((y - design @ b) ** 2) / (len(y) - design.shape[1])
    se = np.sqrt(scale * np.diag(np.linalg.inv(design.T @ design)))
    names = tuple(f"x{i}" for i in range(x.shape[1]))
    numbers = [tuple(printed(v, digits) for v in values) for values in (b, se)]
    return WithoutCorrelations(names, "y", *numbers, printed(np.sqrt(scale), digits))


def statistics(x, y):
    names = [*(f"x{i}" for i in range(x.shape[1])), "y"]
    values = dict(zip(names, [*x.T, y], strict=True))
    found = {"n": len(y)} | {f"mean({k})": v.mean() for k, v in values.items()}
    found |= {f"var({k})": v.var() for k, v in values.items()}
    return found | {"cov(x0,y)": np.cov(x[:, 0], y, ddof=0)[0, 1], "mean(x0*x0)": np.mean(x[:, 0] ** 2)}


def data(rng, covariates, size):
    x = rng.normal(rng.normal(0, 2), 1 + rng.gamma(2), (size, covariates))
    x[:, 1:] += rng.normal(size=(size, 1))
    return x, rng.normal() + x @ rng.normal(size=covariates) + rng.normal(0, rng.gamma(2), size)


def fields(x, domain=REAL):
    return {**{f"x{i}": Field((), domain) for i in range(x.shape[1])}, "y": Field()}


@pytest.mark.parametrize("covariates", [1, 2, 4])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("digits", [2, 3, None])
def test_limits_always_hold(covariates, known, digits):
    """They are inequalities: none may ever miss."""
    rng = np.random.default_rng(covariates)
    for _ in range(50):
        x, y = data(rng, covariates, int(rng.integers(covariates + 3, 200)))
        domain = Domain("interval", 0.0, np.inf) if (x >= 0).all() else REAL
        found = table(x, y, digits)(fields(x, domain), float(len(y)) if known else None)
        for name, true in statistics(x, y).items():
            if name in found:
                slack = 1e-9 * (1 + abs(true))
                assert found[name].lower - slack <= true <= found[name].upper + slack


def test_one_covariate_and_the_number_of_records_leave_a_sign():
    x, y = data(np.random.default_rng(0), 1, 60)
    found, true = table(x, y)(fields(x), 60.0), statistics(x, y)
    for name in ("var(x0)", "var(y)", "cov(x0,y)", "mean(x0*x0)"):
        assert found[name].estimate == pytest.approx(true[name], rel=1e-9)
    assert found["mean(x0)"].estimate is None
    assert found["mean(x0)"].upper == pytest.approx(abs(true["mean(x0)"]), rel=1e-6)
    positive = table(np.abs(x), y)(fields(x, Domain("interval", 0.0, np.inf)), 60.0)
    assert positive["mean(x0)"].estimate == pytest.approx(np.abs(x).mean(), rel=1e-6)


def test_a_group_tells_the_number_of_records():
    rng = np.random.default_rng(1)
    x = (rng.random((80, 1)) < 0.3).astype(float)
    y = 1 + x[:, 0] + rng.normal(size=80)
    exact, true = table(x, y)(fields(x, BINARY), None), statistics(x, y)
    for name, value in true.items():
        assert exact[name].estimate == pytest.approx(value, rel=1e-9)
    cut = table(x, y, 4)(fields(x, BINARY), None)
    assert cut["n"].lower < 80 < cut["n"].upper < 80.5
    assert table(x, y)(fields(x), None)["n"].estimate is None
