"""Draws as arrays, and arrays put together of scalar columns."""

import numpy as np
import pytest
from written import BETA, LP, RNG, SIGMA, refused, same

from bayesrecon.posteriors.draws import Draws, assemble

pytestmark = pytest.mark.small


def test_last_takes_whole_chains_or_the_end_of_the_last_one():
    draws = Draws({"sigma": SIGMA, "beta": BETA}, LP, "fit", {"a": "b"})
    few = draws.last(4)
    assert (few.chains, few.length, few.name, few.attributes) == (1, 4, "fit", {"a": "b"})
    np.testing.assert_array_equal(few.values["beta"], BETA[-1:, -4:])
    np.testing.assert_array_equal(few.log_density, LP[-1:, -4:])
    np.testing.assert_array_equal(draws.last(7).values["sigma"], SIGMA[-1:])
    np.testing.assert_array_equal(draws.last(14).values["sigma"], SIGMA[-2:])
    same(draws.last(21))
    refused("take 7 or 14, or 7 or fewer", draws.last, 9)
    for count in (0, -1, 22):
        refused("not between 1 and 21", draws.last, count)
    refused("not a whole number", draws.last, 2.5)


@pytest.mark.parametrize(
    "values, log_density, match",
    [
        ({}, None, "no parameters"),
        ({"a": np.zeros(3)}, None, r"\(chains, draws, ...\)"),
        ({"a": np.zeros((2, 0))}, None, "at least one draw"),
        ({"a": SIGMA, "b": SIGMA.T}, None, "'b' has"),
        ({"a": np.full((2, 2), "x")}, None, "not real numbers"),
        ({"a": np.zeros((2, 2), complex)}, None, "not real numbers"),
        ({"a": [[1.0], [1.0, 2.0]]}, None, "ragged"),
        ({"a": SIGMA}, LP.T, "log density has shape"),
    ],
)
def test_draws_refuses_what_is_not_draws(values, log_density, match):
    refused(match, Draws, values, log_density)


@pytest.mark.parametrize("style", ["beta[{},{}]", "beta.{}.{}"])
def test_assemble_any_order(style):
    columns = {style.format(i + 1, j + 1): BETA[:, :, i, j] for i in range(2) for j in range(3)}
    shuffled = [*columns, "sigma"]
    np.random.default_rng(0).shuffle(shuffled)
    columns["sigma"] = SIGMA
    same(Draws(assemble({key: columns[key] for key in shuffled})), None)


@pytest.mark.parametrize(
    "names, match",
    [
        (["b[1]", "b[3]"], r"b\[2\] is missing"),
        (["b[2]"], r"b\[1\] is missing"),
        (["b[1,1]", "b[2,2]"], r"b\[1,2\] is missing"),
        (["b[1000000000]"], "neither"),
        (["b[999999999]"], "is missing"),
        (["b.999999999.999999999.999999999"], r"b\[1,1,1\] is missing"),
        (["b[1]", "b.1"], "same element"),
        (["b[1]", "b[01]"], "same element"),
        (["b", "b[1]"], "same number of indices"),
        (["b[1]", "b[1,1]"], "same number of indices"),
        (["b[0]"], "start at 1"),
        (["b" + ".1" * 40], "40 indices"),
        (["b[-1]"], "neither"),
        (["b[1"], "neither"),
        (["b[]"], "neither"),
        (["b[1][2]"], "neither"),
        (["b[\u0661]"], "neither"),
        ([""], "neither"),
        (["b\x00"], "neither"),
        (["b:1"], "tuple or a complex"),
        (["z.real"], "tuple or a complex"),
    ],
)
def test_assemble_refuses(names, match):
    refused(match, assemble, dict.fromkeys(names, SIGMA))


def test_assemble_refuses_unequal_columns():
    refused("same number of draws", assemble, {"a": SIGMA, "b": SIGMA[:2]})


def test_assemble_thousands_of_columns():
    grid = RNG.normal(size=(2, 5, 60, 70))
    columns = {f"m[{i + 1},{j + 1}]": grid[:, :, i, j] for j in range(70) for i in range(60)}
    np.testing.assert_array_equal(assemble(columns)["m"], grid)
