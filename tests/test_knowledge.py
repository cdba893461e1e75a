"""What an attacker knows beforehand: checked at the door, with a remedy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import refused

from bayesrecon.domains import COUNT, POSITIVE, REAL, Domain
from bayesrecon.knowledge import check_knowledge
from bayesrecon.stated_domains import parse
from bayesrecon.types import Field, Model

IDENTITIES = {"sum(x)": (lambda z: z["x"], 0.0)}
MODEL = Model(
    name="toy",
    parameters=(),
    fields={
        "x": Field(),
        "age": Field((), Domain("interval", 0.0, 120.0)),
        "visits": Field((), COUNT),
        "group": Field((), Domain("levels", levels=(1.0, 2.0, 3.0))),
        "scores": Field((2,), POSITIVE),
    },
    log_lik_at=lambda params, record: 0.0,
    log_prior_at=lambda params: 0.0,
    identities=IDENTITIES,
)


def test_nothing_known():
    found = check_knowledge(MODEL)
    assert found.fields == MODEL.fields
    assert (found.known, found.unit, found.total, found.identities) == ({}, None, None, IDENTITIES)


def test_everything_known():
    known = {"visits": [3, 0, 7], "scores": np.ones((3, 2)), "x": [1, 2, 3]}
    found = check_knowledge(MODEL, known=known, unit="visits", total=3, domain={"x": [1, 2, 3, 4]})
    assert (found.unit, found.total) == ("visits", 3.0)
    assert found.known["visits"].dtype == found.known["x"].dtype == np.int64
    assert found.known["scores"].dtype == np.float64
    np.testing.assert_array_equal(found.known["visits"], [3, 0, 7])
    assert found.fields["x"].domain.levels == (1.0, 2.0, 3.0, 4.0)
    assert MODEL.fields["x"].domain == REAL
    assert check_knowledge(MODEL, total=5.0).total == 5.0
    assert check_knowledge(MODEL, known={"x": [1.5, 2.5]}).total == 2.0


@pytest.mark.parametrize(
    "name, pair, expected",
    [
        ("x", (-1, 1), Domain("interval", -1.0, 1.0, closed=True)),
        ("x", (0, math.inf), Domain("interval", 0.0, math.inf, closed=True)),
        ("age", (18, 200), Domain("interval", 18.0, 120.0)),
        ("age", (-5, 65), Domain("interval", 0.0, 65.0)),
        ("visits", (-5, 12), Domain("integer", 0.0, 12.0)),
        ("group", (1.5, 9), Domain("levels", levels=(2.0, 3.0))),
        ("group", (0, 1), Domain("levels", levels=(1.0,))),
        ("scores", (0, 1), Domain("interval", 0.0, 1.0)),
    ],
)
def test_intervals_narrow(name, pair, expected):
    fields = check_knowledge(MODEL, domain={name: pair}).fields
    assert fields[name] == Field(MODEL.fields[name].shape, expected)
    assert {k: v for k, v in fields.items() if k != name} == {k: v for k, v in MODEL.fields.items() if k != name}


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, report_multiple_bugs=False)
@given(
    name=st.sampled_from(["x", "age", "visits", "group"]),
    tenths=st.tuples(st.integers(-300, 1500), st.integers(0, 100)),
    centre=st.integers(-300, 300),
)
def test_intervals_never_let_a_draw_outside(name, tenths, centre):
    """Whatever the ends, either nothing is left and that is said, or draws obey them and the old domain."""
    old, (low, high) = MODEL.fields[name].domain, (tenths[0] / 10, sum(tenths) / 10)
    if old.discrete:
        values = np.array(old.levels) if old.kind == "levels" else np.arange(old.low, 200)
        empty = low >= high or not ((values >= low) & (values <= high)).any()
    else:
        empty = max(low, old.low) >= min(high, old.high)
    if empty:
        refused(
            f"field '{name}'.*(low < high|leaves? nothing|none of its values)",
            check_knowledge,
            MODEL,
            domain={name: (low, high)},
        )
        return
    domain = check_knowledge(MODEL, domain={name: (low, high)}).fields[name].domain
    rng = np.random.default_rng(0)
    for values in (domain.draw(rng, (50,), centre, 10.0), domain.draw_broad(rng, (50,))):
        assert (old.contains(values) & domain.contains(values) & (values >= low) & (values <= high)).all()


def test_draws_of_an_interval_do_not_round_out_of_it():
    domain = parse((-3.0, -0.9), "f")  # -3.0 + (-0.9 - -3.0) > -0.9 in floating point
    assert domain.contains(domain.draw(np.random.default_rng(0), (2000,), -0.9, 1.0)).all()


@pytest.mark.parametrize("pair", [(0.5, 2.5), (0.2, 2.8), (6.9, 7.1)])
def test_ends_of_a_count_need_not_be_whole(pair):
    domain = check_knowledge(MODEL, domain={"visits": pair}).fields["visits"].domain
    rng = np.random.default_rng(0)
    assert domain.contains(domain.draw(rng, (200,), 1.0, 3.0)).all()
    assert domain.contains(domain.draw_broad(rng, (200,))).all()


@pytest.mark.parametrize("source", ["domain", "known"])
def test_fields_that_do_not_exist(source):
    given = {"domain": "real", "known": [1.0]}[source]
    refused(
        rf"{source}: 'vists' is not a field of a record of toy \(fields: x, age, .*\); did you mean visits\?",
        check_knowledge,
        MODEL,
        **{source: {"vists": given}},
    )


@pytest.mark.parametrize(
    "options, match",
    [
        ({"domain": {"x": "reel"}}, "domain of field 'x': 'reel' is not one of"),
        ({"domain": {"x": (2, 1)}}, "field 'x'.*low < high"),
        ({"domain": {"x": (1, 2, 3)}}, "field 'x'.*low < high"),
        ({"domain": {"x": "ab"}}, "field 'x'"),
        ({"domain": {"x": 3}}, "field 'x'"),
        ({"domain": {"age": (150, 200)}}, r"field 'age'.* leaves nothing of the model's, numbers from 0 to 120"),
        ({"domain": {"age": (120, 200)}}, "leaves? nothing"),
        ({"domain": {"visits": (-9, -1)}}, "leaves? nothing"),
        ({"domain": {"visits": (0.2, 0.8)}}, "leaves? nothing"),
        ({"domain": {"group": (4, 9)}}, r"none of its values \(1.0, 2.0, 3.0\) lies in \(4.0, 9.0\)"),
        ({"known": {"x": ["a", "b"]}}, "known field 'x' holds values that are not numbers"),
        ({"known": {"x": [10**400, 1]}}, "known field 'x' holds values that are not numbers"),
        ({"known": {"x": [[1.0], [1.0, 2.0]]}}, "known field 'x' holds values that are not numbers"),
        ({"known": {"x": {"a": 1}}}, "known field 'x' holds values that are not numbers"),
        ({"known": {"x": np.array([1j])}}, "known field 'x' holds values that are not numbers"),
        ({"known": {"x": 3.0}}, r"known field 'x' has shape \(\), expected \(N,\)"),
        ({"known": {"x": []}}, r"known field 'x' has shape \(0,\), expected \(N,\)"),
        ({"known": {"x": [[1.0]]}}, r"known field 'x' has shape \(1, 1\), expected \(N,\)"),
        ({"known": {"scores": [1.0]}}, r"known field 'scores' has shape \(1,\), expected \(N,2"),
        ({"known": {"scores": np.ones((4, 3))}}, r"has shape \(4, 3\), expected \(N,2"),
        ({"known": {"x": [1.0, math.nan]}}, "known field 'x' holds missing or infinite values"),
        ({"known": {"x": [1.0, math.inf]}}, "known field 'x' holds missing or infinite values"),
        ({"known": {"x": [1.0, None]}}, "known field 'x' holds missing or infinite values"),
        ({"known": {"age": [10, -2.5]}}, "known field 'age' holds -2.5; its domain is numbers from 0 to 120"),
        ({"known": {"visits": [1, 2.5]}}, "known field 'visits' holds 2.5; its domain is whole numbers from 0 on"),
        ({"known": {"group": [1, 4]}}, "known field 'group' holds 4; its domain is one of 1, 2, 3"),
        ({"known": {"x": [1, 5]}, "domain": {"x": (0, 2)}}, "known field 'x' holds 5"),
        ({"known": {"x": [1, 2], "age": [3]}}, "known fields differ in length: x 2, age 1"),
        ({"unit": "visits"}, r"unit='visits' must be one of the known fields; pass known=\{'visits': values\}"),
        ({"known": {"x": [1]}, "unit": "age"}, "unit='age' must be one of the known fields"),
        ({"known": {"x": [1]}, "unit": ("x", "age")}, "must be one of the known fields; pass known={'age': values}"),
        ({"known": {"group": [1, 2, 1]}, "unit": "group"}, "every unit has one record, but its known values repeat"),
        ({"known": {"scores": np.ones((2, 2))}, "unit": "scores"}, "unit='scores'"),
        ({"total": 0}, "total=0: the number of records is a number above 0"),
        ({"total": -4}, "total=-4"),
        ({"total": math.nan}, "total=nan"),
        ({"total": math.inf}, "total=inf"),
        ({"known": {"x": [1, 2]}, "total": 3}, "total=3 contradicts the 2 rows of the known fields"),
    ],
    ids=str,
)
def test_contradictory_knowledge_is_refused(options, match):
    refused(match, check_knowledge, MODEL, **options)


def test_a_group_is_a_field_with_levels_that_is_not_known():
    found = check_knowledge(MODEL, unit="group")
    assert found.levels == [1, 2, 3]
    assert found.aside == ["group"]
    assert check_knowledge(MODEL, known={"group": [1, 3]}, unit="group").levels == [1, 3]
    assert check_knowledge(MODEL, known={"x": [1, 1], "age": [2, 3]}, unit=("x", "age")).unit == ("x", "age")
