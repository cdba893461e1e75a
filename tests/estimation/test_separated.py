"""Bases of groups beside the general way, which decomposes all records together."""

from dataclasses import replace
from functools import cache

import conjugate
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from parts import slow_then_large

import bayesrecon
from bayesrecon.estimation import basis, separated
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws

CLOSE = 1e-9


def effects(groups, rng):
    group = np.repeat(np.arange(1, groups + 1), 6)
    y = rng.normal(size=groups)[group - 1] + rng.normal(size=len(group))
    return from_draws(conjugate.sample_effects(group, y, groups, 400, rng), conjugate.effects_model(groups))


@cache
def line_model(groups):
    def line(group, x, y):
        a = numpyro.sample("a", dist.Normal(0, 3).expand((groups,)).to_event(1))
        b = numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(a[group] + b * x, 1.0), obs=y)

    model = from_numpyro(line, {"group": (), "x": (), "y": ()}, domain={"group": list(range(groups))})
    return replace(model, gaussian=None)  # not known to be a regression, whose closed form has no records


def line(groups, rng):
    """Intercepts of groups and one slope: products of x with x and y are features that all groups share."""
    group = np.repeat(np.arange(groups), 12)
    x = rng.normal(1, 2, len(group))
    y = rng.normal(size=groups)[group] + x + rng.normal(size=len(group))
    design = np.column_stack([np.eye(groups)[group], x])
    precision = design.T @ design + np.eye(groups + 1) / 9
    root = np.linalg.inv(np.linalg.cholesky(precision))
    draws = np.linalg.solve(precision, design.T @ y) + rng.normal(size=(600, groups + 1)) @ root
    return from_draws({"a": draws[None, :, :groups], "b": draws[None, :, groups]}, line_model(groups))


@pytest.mark.parametrize(("release", "groups"), slow_then_large((line, 12), (effects, 12), (effects, 50), slow=2))
def test_groups_one_by_one_are_all_together(monkeypatch, release, groups):
    release = release(groups, np.random.default_rng(groups))
    together = bayesrecon.recover(release)
    looked = []

    def spied(*given):
        looked.append(whole(*given))
        return looked[-1]

    whole = basis.separated_basis
    monkeypatch.setattr(basis, "MANY_GROUPS", 0)
    monkeypatch.setattr(basis, "separated_basis", spied)
    apart = bayesrecon.recover(release)
    assert looked
    assert all(one is not None for one in looked)
    assert (apart.rank, apart.gap) == (together.rank, True)
    for row, same in zip(apart.rows, together.rows, strict=True):
        assert row.verdict == same.verdict
        if row.verdict == "determined":  # of others visibility is what chance made of the probes
            for name in ("estimate", "se", "floor", "visibility"):
                assert getattr(row, name) == pytest.approx(getattr(same, name), rel=CLOSE, abs=CLOSE), (row.name, name)


def arrow(rng, groups=5, own=2, shared=1, records=8, atoms=64):
    """Records of groups with two features of their own each, and three that all share."""
    index, slopes = [], []
    common = rng.normal(size=(shared, atoms, 3))
    for g in range(groups):
        mine = rng.normal(size=(own, atoms, 2)) @ rng.normal(size=(2, records))
        index.append(np.repeat(np.r_[groups * own, g * own : (g + 1) * own][:, None], records, axis=1))
        slopes.append(np.concatenate([common @ rng.normal(size=(3, records)), mine]))
    return np.concatenate(index, axis=1), np.concatenate(slopes, axis=2)


def dense(index, slopes):
    found = np.zeros((index.max() + 1, slopes.shape[1], slopes.shape[2]))
    for at, slope in zip(index, slopes, strict=True):
        found[at, :, np.arange(len(at))] += slope.T
    return found.reshape(-1, slopes.shape[2])


def test_features_that_groups_share_are_counted_once():
    index, slopes = arrow(np.random.default_rng(0))
    found, whole = separated.independent(index, slopes), dense(index, slopes)
    rank = np.linalg.matrix_rank(whole)
    assert len(found) == rank == np.linalg.matrix_rank(whole[:, found]) == 5 * 2 + 3


def test_rows_and_columns_of_a_table_are_no_groups():
    row, column = np.indices((6, 6)).reshape(2, -1)
    slopes = np.random.default_rng(0).normal(size=(2, 64, 36))
    assert separated.independent(np.stack([row, 6 + column]), slopes) is None


def test_no_end_is_seen_where_every_record_shows_another_feature():
    rng = np.random.default_rng(0)
    index, slopes = arrow(rng)
    assert separated.independent(index, slopes + rng.normal(size=slopes.shape)) is None


def test_a_decay_has_no_end():
    assert separated._ending(10.0 ** -np.arange(16.0), 1.0) is None
    assert separated._ending(np.array([1.0, 1e-3, 1e-14]), 1.0) == 2
