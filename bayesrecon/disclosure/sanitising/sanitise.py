"""The verb `sanitise`: publishable draws, from the posterior of data that were randomly altered once."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.diagnostics import effective_sample_size, evenly
from bayesrecon.disclosure.sanitising import ledger as ledgers
from bayesrecon.disclosure.sanitising.guaranteed import Promise, guaranteed
from bayesrecon.disclosure.sanitising.ledger import Asked
from bayesrecon.disclosure.sanitising.public_numbers import public_numbers, statistics_of
from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.disclosure.sanitising.secret import (
    UNNAMED,
    Secret,
    hash_of_data,
    hash_of_draws,
    hash_of_model,
    keyed,
)
from bayesrecon.disclosure.sanitising.supported import (
    LEAST_WORTH,
    check_worth,
    is_supported,
    with_widest_cap,
    worth_for,
)
from bayesrecon.disclosure.sanitising.tilted_draws import MOST, USUAL, chosen, distinct, redrawn
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution, count_of, tilt_at, tilt_distribution
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.json_types import Json
from bayesrecon.model import Model, Progress, PseudoData, Records
from bayesrecon.models.conversion import model_of
from bayesrecon.posteriors.approximated.approximations import gaussian
from bayesrecon.posteriors.approximated.normal import fitted_normal, laplace, pack, unpack
from bayesrecon.posteriors.fitting.nuts import check_records, nuts
from bayesrecon.posteriors.tables import read_table
from bayesrecon.precision import x64
from bayesrecon.releases import Approximation, OptimisedFit, PosteriorDraws, Release
from bayesrecon.results.sanitised import NO_END, Guaranteed, Sanitised
from bayesrecon.running.threads import one_thread
from bayesrecon.verbs.verb import verb

_Shifts = dict[str, dict[float | str, float]]
"""By column of the data, and by value of this column."""

_Table = Mapping[str, ArrayLike]
"""Columns `(N, *shape)` by name."""

_FEWEST = 100  # smallest number of draws to publish: readers cannot compute quantiles from fewer
_RESPONSES_OF = 128  # evenly spaced records whose bits are computed, which takes some seconds
_DRAWS, _THINNING = 1000, 2  # draws per chain and thinning of the posterior behind a mode, to compute the tilts
_CHAINS = 8  # largest number of chains that the published draws are divided into


class Spends(TypedDict, total=False):
    """How a sanitised release is counted: keywords of `sanitise`.

    Attributes:
        budget: largest total worth of all releases of the account. It is kept until another one is stated. Defaults to
            the worth of the first release.
        account: name of other people: the data are about nobody in another account. Other columns, units, records or
            models of the same people make no account. Defaults to one account for everything.
        part: name of people of the account who are in none of its other parts, such as those who joined in a month. The
            account has spent the largest sum over parts; a release without a part counts in each.
        ledger: file that stores the tilts and what was released. Its key is beside it, in a file whose name ends in
            `.key`. Defaults to `ledger.json` in the user's data directory, or to the environment variable
            BAYESRECON_LEDGER. Never publish them, and never store them beside a release.
        dry_run: do everything with a tilt that is thrown away, and return no draws. Nothing is spent or written.
        accept: function that gets the result before its worth is spent. If it raises an error, nothing is spent. If it
            returns an entry (`auditing.published.entry_of`), the ledger has that file from the same write on.
        epsilon, delta: differential privacy of the release, instead of a worth. Then `budget` is the largest epsilon of
            all releases of the account together.
        domain: with `epsilon`, `{field: (LOW, HIGH)}`: public ranges. Values outside are clipped, without a word.
        replace: with `epsilon`, whether neighbouring data sets differ in the values of one record, so that their number
            is public. By default a record is added or removed.
        unit, most_per_unit: with `epsilon`, the column of `data` whose value names a person or another unit with
            several records, which are protected together; only the first `most_per_unit` of each count.
    """

    budget: float | None
    account: str | None
    part: str | None
    ledger: str | Path | None
    dry_run: bool
    accept: Callable[[Any], Json | None] | None
    epsilon: float | None
    delta: float | None
    domain: Mapping[str, Any] | None
    replace: bool
    unit: str | None
    most_per_unit: int | None


_GUARANTEES = ("epsilon", "delta", "domain", "replace", "unit", "most_per_unit")


@overload
def sanitise(release: object, *, model: object = None, **options: Any) -> Sanitised: ...
@overload
def sanitise(release: None = None, *, model: object, epsilon: float, **options: Any) -> Guaranteed: ...
def sanitise(  # pyright: ignore[reportInconsistentOverload]
    release: object = None,
    *,
    model: object = None,
    worth: float | None = None,
    records: float | Mapping[str, float] | None = None,
    data: _Table | str | Path | None = None,
    draws: int | None = None,
    unsafe_seed: int | None = None,
    progress: Progress | None = None,
    **spends: Unpack[Spends],
) -> Sanitised | Guaranteed:
    """Publishable draws: draws from the posterior of data that were randomly altered, once for all releases.

    A signed measure `sum_m w_m delta_{z_m}` is added to the data, which tilts the posterior. In the whitened directions
    of the value kernel its distribution is `Delta_i ~ N(0, c_i)` with `1 / c_i = worth + 1 / s_i^2`. Here s_i^2 is the
    scatter of as many ordinary records as the data have, or of up to 64 times as many where the theory holds.

    To second order, and however many draws are published, a direction then reveals at most the precision of `worth`
    independent draws of the posterior plus `1 / s_i^2`. The result reports what this leaves of each statistic. The
    average cost to a reader is `sum_i c_i / 2` nats. The tilt is drawn once: its secret is a keyed function of data,
    model and worth. All releases of a ledger count in one account, whatever their data, since an attacker can average
    them.

    Sanitised by a worth does not mean anonymous or differentially private. The following is not protected: single
    records (see `records`), the fact that somebody took part, an outlying record, other models and other releases of
    the same data, and the difference between two sanitised releases around a deletion.

    With `epsilon`, no draws are needed, only `model` and `data`. Totals of bounded features get discrete Gaussian
    noise, which makes the release (epsilon, delta)-differentially private, and draws of a posterior that knows this
    noise are returned (`disclosure.sanitising.noisy_posterior`). This protects single records as well.

    Args:
        release: draws that are never published themselves: a release from `bayesrecon.posteriors`, or any object or
            file that holds draws, together with its `model`. Repeated draws are thinned. Or a mode with its covariance,
            together with `data`. Its posterior is then sampled to compute the tilt, and the mode of the tilted
            posterior is computed anew (a Laplace approximation, with the Jacobian of the transforms). Only the model of
            the given mode is used.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        worth: number of independent posterior draws that the release may be worth, at least 100 (the default).
        records: alternative to `worth`: the largest shift of the release by a single record, in posterior standard
            deviations. `{column: MU}` limits the shift by all records together that share a value in a column of
            `data`, such as those of one patient or one school. Refused if that needs a worth below 100.
        data: the private records, `{field: (N, *shape)}` or the path of a table. With them, another run of the sampler
            takes the same tilt, which adds no worth, and shifts by single records are computed. The table may have
            columns that the model does not use. Without `data`, the draws stand for them.
        draws: number of draws to publish. Defaults to a quarter of the draws, but no more than their effective sample
            size. More than a third are sampled anew with NUTS, which needs `data`.
        unsafe_seed: for tests only: a tilt that anybody can compute again, and that is not in any ledger.
        progress: called with a label and the completed fraction.
        spends: `budget`, `account`, `part` and `ledger`, which say what the release is counted with, and `dry_run` and
            `accept`, which say whether it is (`Spends`). Also `epsilon` and what belongs to it.

    Returns:
        A `Sanitised`. Its `release` holds the draws, or the mode. It reports what they hide and what they cost. With
        `epsilon`, a `Guaranteed`.

    Raises:
        BayesreconError: the draws do not belong to their model, the tilt is too large for the theory, the budget does
            not allow the worth, there are not enough draws, or the ledger is damaged. None of these errors depends on
            the secret. A worth that the message names was tried: it is supported, and within the budget that is named.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 1000, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 1000, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> safe = bayesrecon.sanitise(release, worth=100, unsafe_seed=0)
    >>> safe.release.size, safe["n"].scatter > bayesrecon.recover(release)["n"].se, safe.cost < 0.05
    (500, True, True)
    """
    given = [name for name in _GUARANTEES if (asked := spends.get(name)) is not None and asked is not False]
    if not given:
        options: Any = {"worth": worth, "records": records, "data": data, "draws": draws, "unsafe_seed": unsafe_seed}
        return _altered(cast(Release, release), model=model, progress=progress, **options, **spends)
    epsilon, delta = spends.get("epsilon"), spends.get("delta")
    if epsilon is None or delta is None:
        raise BayesreconError(f"{given[0]}= belongs to a guarantee: state epsilon= and delta=, e.g. 1 and 1e-6")
    wrong = {"worth": worth, "records": records, "unsafe_seed": unsafe_seed, "a release": release}
    if others := [name for name, value in wrong.items() if value is not None]:
        raise BayesreconError(f"epsilon= does without {others[0]}: it needs model= and data= alone")
    if model is None or data is None:
        raise BayesreconError("epsilon= needs model= and the private records (data=)")
    more: dict[str, Any] = {name: spends.get(name) for name in given if name not in ("epsilon", "delta")}
    asked = Promise(epsilon, delta, **more)
    with x64(), one_thread():
        return _guaranteed(model_of(model), data, asked, draws, progress, spends)


def _guaranteed(
    model: Model,
    data: _Table | str | Path,
    asked: Promise,
    draws: int | None,
    progress: Progress | None,
    spends: Spends,
) -> Guaranteed:
    """Draws with a guarantee, entered in the ledger."""
    table = read_table(str(data)) if isinstance(data, str | Path) else data
    account, path, accept = spends.get("account"), spends.get("ledger"), spends.get("accept")
    budget, dry_run = spends.get("budget"), spends.get("dry_run", False)
    whose = ledgers.Whose(ledgers.EVERYBODY if account is None else account, spends.get("part"))
    entry = ledgers.Guarantee(asked.rho, asked.delta, asked.replace)
    with ledgers.opened_ledger(ledgers.ledger_path() if path is None else Path(path), only_read=dry_run) as book:
        after, notes = book.admit(whose, entry, budget)
        result = guaranteed(model, table, asked, draws=draws, progress=progress)
        stated = {"account": whose.account, "part": whose.part, "spent_rho": after.rho, "spent_epsilon": after.epsilon}
        result = result.having(result.release, **stated, warnings=(*result.warnings, *notes))
        file = None if accept is None else accept(result)
        if dry_run:
            trial = Note("a trial: nothing was spent or written, and the draws are not given away")
            return replace(result.hidden(), warnings=(*result.warnings, trial))
        book.enter_guarantee(whose, entry, model.name, budget, file)
    return result


@verb(
    (PosteriorDraws, Approximation, OptimisedFit),
    uses=(),
    also=Spends.__annotations__,
    instead="sanitise draws (`bayesrecon fit` makes some), and publish `table()` of these",
    name="sanitise",
)
def _altered(
    release: Release,
    *,
    worth: float | None,
    records: float | Mapping[str, float] | None,
    data: _Table | str | Path | None,
    draws: int | None,
    unsafe_seed: int | None,
    progress: Progress | None,
    model: object = None,
    **spends: Unpack[Spends],
) -> Sanitised:
    """Draws from the posterior of altered data; arguments as in `sanitise`."""
    if records is not None and worth is not None:
        raise BayesreconError("records= sets the worth: give one of records= and worth=")
    worth = check_worth(LEAST_WORTH if worth is None else worth)
    budget, account, ledger = spends.get("budget"), spends.get("account"), spends.get("ledger")
    dry_run, accept = spends.get("dry_run", False), spends.get("accept")
    budget = None if budget is None else check_worth(budget, "budget")
    whose = ledgers.Whose(ledgers.EVERYBODY if account is None else account, spends.get("part"))
    book_path = ledgers.ledger_path() if ledger is None else Path(ledger)
    if unsafe_seed is None:
        with ledgers.opened_ledger(book_path, only_read=True):
            pass  # a damaged one is refused before anything is computed
    table = read_table(str(data)) if isinstance(data, str | Path) else data
    private = None if table is None else check_records(release.model, table)
    column, largest_shift = _hidden_units(records, table)
    job = _prepared(release, private, draws)
    if largest_shift is not None:
        shifted = job.tilts.records if private is None else private
        codes = None if column is None or table is None else _codes(table[column])[1]
        subject = "a record moves" if column is None else f"all records of one {column} together move"
        allowed = worth_for(
            largest_shift, lambda k: float(job.tilts.with_size(k).shift(shifted, job.count, codes).max()), subject
        )
        worth = min(allowed, max(LEAST_WORTH, float(job.count)))  # above it the sampling error of the draws hides more
    columns = _columns(release.model, table, column)
    job = replace(job, worth=worth, tilts=job.tilts.with_size(worth**-0.5), columns=columns)
    if progress is not None:
        progress("altering the draws", 0.5)
    if unsafe_seed is not None:
        secret = keyed(b"unsafe", str(int(unsafe_seed)), hash_of_model(job.release.model), repr(worth))
        warning = "unsafe_seed: anybody can compute this tilt again, so these draws protect nothing"
        return job.capped(*with_widest_cap(job.tilts, release.name)).altered(secret, None, (warning,))
    with ledgers.opened_ledger(book_path, only_read=dry_run) as book:
        asked = Asked(book, whose, job.in_ledger(table), budget, largest_shift is not None, release.name)
        capped = with_widest_cap(job.tilts, release.name, asked.conditions)
        asked.check(lambda worth: is_supported(job.tilts.with_size(worth**-0.5)))
        job = job.capped(*capped)
        if dry_run:
            warnings = (Note("a trial: nothing was spent or written, and the draws are not given away"),)
            secret, stored = Secret(secrets.token_bytes(32)), None
        else:
            warnings, stored = (), book.tilt(asked.release)
            secret = book.secret(asked.release)
        tilt, times = (job.tilt(secret), job.times) if stored is None else stored  # or that of an earlier run
        result = replace(job, times=times).altered(secret, tilt, (*asked.notes(book_path), *warnings))
        after = asked.account
        said: Json = {"account": whose.account, "part": whose.part, "spent": after.spent, "budget": after.budget}
        measure = None if dry_run else book.measure(asked.release)
        result = result.in_account(**said, left=max(0.0, after.left), measure=measure)
        file = None if accept is None else accept(result)
        if dry_run:
            return result.without_release()
        book.enter(whose, asked.release, budget, tilt, times, file)
    return result


@dataclass(frozen=True, eq=False)
class _Job:
    """What is to be sanitised.

    Attributes:
        release: the draws.
        private: the private records, if supplied.
        tilts: distribution of the tilts.
        count: number of draws to publish.
        notes: notes for the result.
        worth: in draws.
        times: R / N, the cap of the tilts.
        mode: name of the mode to publish instead of draws, or empty.
        columns: columns of the data that group records into units.
    """

    release: PosteriorDraws
    private: Records | None
    tilts: TiltDistribution
    count: int
    notes: tuple[str, ...] = ()
    worth: float = LEAST_WORTH
    times: int = 1
    mode: str = ""
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    def capped(self, tilts: TiltDistribution, times: int) -> "_Job":
        """The same with tilts of this cap."""
        return replace(self, tilts=tilts, times=times)

    def tilt(self, secret: Secret) -> PseudoData:
        return self.tilts.drawn(secret.generator("tilt"))

    def in_ledger(self, table: _Table | None) -> ledgers.Release:
        """What the release is, for the ledger. If the data were not supplied, the draws identify it."""
        model, fields = self.release.model, self.private
        identity = hash_of_model(model)
        if table is None or fields is None:
            identity = f"{identity} {hash_of_draws(self.release.theta)}"
            return ledgers.Release(UNNAMED, None, identity, model.name, self.worth)
        return ledgers.Release(hash_of_data(table), hash_of_data(fields), identity, model.name, self.worth)

    def altered(self, secret: Secret, tilt: PseudoData | None, warnings: tuple[str, ...]) -> Sanitised:
        """The result with this tilt, or with the one that belongs to the secret."""
        tilt = self.tilt(secret) if tilt is None else tilt
        model = self.release.model
        if not self.mode or self.private is None:
            return _result(self, self.published(secret, tilt), warnings)
        safe = tilted_mode(model, self.private, tilt, np.asarray(self.release.theta), f"{self.mode}, sanitised")
        return _result(self, _as_draws(safe), warnings).of_mode(safe, *_numbers_of(safe))

    def published(self, secret: Secret, tilt: PseudoData) -> PosteriorDraws:
        """Draws from the tilted posterior in random order, in new chains."""
        release, theta = self.release, np.asarray(self.release.theta)
        rng = secret.generator(f"draws of {hash_of_draws(theta)}")
        if self.count <= MOST * len(theta):
            new_theta = theta[chosen(tilt_at(release.model, theta, tilt), self.count, rng)]
        else:
            assert self.private is not None
            seed = int(rng.integers(2**31))
            new_theta = redrawn(release.model, self.private, tilt, theta, self.count, seed)
        chains, count = len(np.unique(release.chain)), len(new_theta)
        chains = chains if chains <= _CHAINS and count % chains == 0 else 1
        chain = np.repeat(np.arange(1, chains + 1), count // chains)
        weights = np.full(count, 1 / count)
        return PosteriorDraws(new_theta, release.model, weights, chain, name=f"{release.name}, sanitised")


@singledispatch
def _prepared(release: Approximation | OptimisedFit, private: Records | None, draws: int | None) -> _Job:
    """Everything that does not depend on the secret. A mode's posterior is sampled first."""
    if private is None:
        raise BayesreconError(
            f"{release.name} is {release.what}; to sanitise a mode, supply the private records (data=), because the "
            "mode is computed anew; or sanitise draws (`bayesrecon fit` makes some) and publish their `table()`"
        )
    if draws is not None:
        raise BayesreconError("draws= is the number of draws to publish; leave it out, since a mode has no draws")
    sampled = nuts(release.of, private, draws=_DRAWS, thinning=_THINNING, name=release.name)
    return replace(_prepared(sampled, private, None), count=NO_END, mode=release.name)


@_prepared.register
def _(release: PosteriorDraws, private: Records | None, draws: int | None) -> _Job:
    if np.ptp(np.asarray(release.weights)) > 0:
        raise BayesreconError(f"{release.name} has weighted draws; supply draws of equal weight")
    release, notes = distinct(release)
    problem = solve_release(release)
    if problem.unfit:
        raise BayesreconError(f"{release.name} does not belong to {release.model.name}: {problem.unfit[0]}")
    if problem.release.model is not release.model:
        raise BayesreconError(f"{release.name}: the draws were rounded; supply them with all digits")
    count = _count(release, draws, private)
    tilts = tilt_distribution(problem, LEAST_WORTH**-0.5, problem.rng, _records(problem, private))
    return _Job(release, private, tilts, count, notes)


def _records(problem: Problem, private: Records | None) -> float:
    """N, the number of private records."""
    if private is not None:
        return float(len(next(iter(private.values()))))
    determined = count_of(statistics_of(problem)[0])
    if determined is None:
        raise BayesreconError(
            f"{problem.release.name} does not determine the number of records, which is needed; supply the private "
            "records (data=)"
        )
    return max(1.0, determined)


def _count(release: PosteriorDraws, draws: int | None, private: Records | None) -> int:
    """The number of draws to publish. It does not depend on the tilt."""
    theta = np.asarray(release.theta)
    chains = len(np.unique(release.chain))
    if draws is None:
        independent = float(effective_sample_size(theta, np.asarray(release.chain)).min())
        draws = int(min(USUAL * len(theta), independent)) // chains * chains
    if draws < _FEWEST:
        raise BayesreconError(
            f"{release.name}: only {draws} draws could be published, and at least {_FEWEST} are needed; supply four "
            "times as many draws as you want to publish"
        )
    if draws > MOST * len(theta) and private is None:
        raise BayesreconError(
            f"choosing {draws} of {len(theta)} draws would reveal the tilt; publish at most {int(MOST * len(theta))}, "
            "or supply the private records (data=), so that new draws are sampled"
        )
    return draws


def _hidden_units(records: float | Mapping[str, float] | None, table: _Table | None) -> tuple[str | None, float | None]:
    """The column whose records are hidden together (None for single records), and the largest allowed shift."""
    if not isinstance(records, Mapping):
        return None, records
    if len(records) != 1:
        raise BayesreconError("records={column: MU}: name one column, whose records are hidden together")
    ((column, largest_shift),) = records.items()
    if table is None or column not in table:
        remedy = "supply the private records (data=)" if table is None else f"they have {', '.join(map(str, table))}"
        raise BayesreconError(f"there is no column {column!r} in the private records; {remedy}")
    return column, largest_shift


def _columns(model: Model, table: _Table | None, column: str | None) -> dict[str, np.ndarray]:
    """Columns that group records into units: the named one, and fields with three or more levels."""
    if table is None:
        return {}
    groups = [
        name for name, spec in model.fields.items() if not spec.shape and len(spec.domain.levels) > 2 and name in table
    ]
    names = groups if column is None or column in groups else [column, *groups]
    return {name: np.asarray(table[name]) for name in names}


def _codes(column: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values of a column, and the index of each record's value."""
    values, codes = np.unique(np.asarray(column), return_inverse=True)
    return values, codes.ravel()


def _unit_shifts(
    job: _Job, columns: Mapping[str, np.ndarray], draws: int
) -> dict[str, dict[float | str, float]] | None:
    """Shift of the release by all records together that share a value, for each column and value."""
    if job.private is None:
        return None
    shifts_by_column = {}
    for name, column in columns.items():
        values, codes = _codes(column)
        shifts = job.tilts.shift(job.private, draws, codes)
        shifts_by_column[name] = dict(zip(values.tolist(), shifts.tolist(), strict=True))
    return shifts_by_column


def _result(job: _Job, safe: PosteriorDraws, warnings: tuple[str, ...]) -> Sanitised:
    count = None if job.private is None else _one_digit(len(next(iter(job.private.values()))))
    public = public_numbers(safe, job.tilts.k, job.times, count)
    bits = _bits(job)
    result = Sanitised(
        source=job.release.name,
        model=job.release.model.name,
        draws=safe.size,
        worth=job.worth,
        cap=job.times,
        cost=public.tilts.cost,
        measured_cost=public.measured,
        directions=public.tilts.effective_rank,
        statistics=public.statistics,
        changes=public.changes,
        typical_shifts=public.typical,
        shifts=None if job.private is None else job.tilts.shift(job.private, job.count),
        units=_unit_shifts(job, job.columns, job.count),
        bits=None if bits is None else bits[0],
        bits_of_draws=None if bits is None else bits[1],
        warnings=(*job.notes, *warnings),
    )
    object.__setattr__(result, "release", safe)
    return result


def _bits(job: _Job) -> tuple[np.ndarray, np.ndarray] | None:
    """Upper limits on the bits of some private records' responses.

    None if the data were not supplied, or if responses cannot be drawn from the model.
    """
    predict = responses(job.release, ())
    if job.private is None or predict is None:
        return None
    positions = evenly(len(next(iter(job.private.values()))), _RESPONSES_OF)
    records = {k: np.asarray(v)[positions] for k, v in job.private.items()}
    independent = effective_sample_size(np.asarray(job.release.theta), np.asarray(job.release.chain)).min()
    return job.tilts.bits(records, predict, job.count, float(independent))


def _one_digit(count: int) -> float:
    """The number of records to one digit, for the public numbers if the draws do not determine it."""
    unit = 10.0 ** np.floor(np.log10(count))
    return float(np.round(count / unit) * unit)


# The mode of a tilted posterior with its covariance: a Laplace approximation, for those who publish no draws. It is a
# function of the tilted log density alone, so it reveals no more than infinitely many draws with the same tilt.

_DRAWS_OF_MODE = 4096  # of the published normal distribution: their error is a tenth of that of the simulated tilts
_CONVERGED = 1e-6  # largest last step, in posterior standard deviations


def tilted_mode(model: Model, data: Records, tilt: PseudoData, starts: np.ndarray, name: str) -> Approximation:
    """The mode of the tilted posterior, and the inverse of minus its Hessian there.

    The density is in unconstrained coordinates and includes the Jacobian.

    Args:
        starts: `(T, d)` posterior draws, from whose mean Newton's method starts.

    Raises:
        BayesreconError: no mode was found.
    """
    records = {k: np.concatenate([np.asarray(v), np.asarray(tilt.records[k])]) for k, v in data.items()}
    weights = np.concatenate([np.ones(len(records[next(iter(data))]) - len(tilt.weights)), np.asarray(tilt.weights)])
    laplace_model, altered_data = laplace(model, True), PseudoData(weights, records)
    covariance = np.atleast_2d(np.cov(starts.T))
    phi = fitted_normal(model, laplace_model, pack(model, starts.mean(axis=0), covariance), altered_data)
    next_phi = fitted_normal(model, laplace_model, phi, altered_data)
    sd = np.sqrt(np.diag(covariance))
    if not np.isfinite(phi).all() or (np.abs(next_phi - phi)[: len(sd)] > _CONVERGED * sd).any():
        raise BayesreconError(f"{name}: no mode of the tilted posterior was found; sanitise draws instead")
    mean, factor = (np.asarray(x) for x in unpack(model, phi))
    return cast(Approximation, gaussian(model, mean, factor @ factor.T, jacobian=True, name=name))


def _numbers_of(mode: Approximation) -> tuple[np.ndarray, np.ndarray]:
    """The mode `(d,)` and its covariance `(d, d)`."""
    mean, factor = (np.asarray(x) for x in unpack(mode.of, np.asarray(mode.theta)[0]))
    return mean, factor @ factor.T


def _as_draws(mode: Approximation) -> PosteriorDraws:
    """Draws from the published normal distribution, to compute its public numbers."""
    mean, factor = (np.asarray(x) for x in unpack(mode.of, np.asarray(mode.theta)[0]))
    theta = mean + public_stream("draws of a mode").normal(size=(_DRAWS_OF_MODE, len(mean))) @ factor.T
    weights, chain = np.full(_DRAWS_OF_MODE, 1 / _DRAWS_OF_MODE), np.ones(_DRAWS_OF_MODE, int)
    return PosteriorDraws(theta, mode.of, weights, chain, name=mode.name)
