"""`bayesrecon diagnose`: what a release can and cannot give away."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesrecon.cli import options
from bayesrecon.cli.command import ENDING, ESTIMATOR, KNOWS, RELEASE, Arguments, command
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrecon.disclosure.bounds import Bounds
    from bayesrecon.disclosure.diagnosis import Diagnosis, Eigenfunction
    from bayesrecon.disclosure.planner import Plan

_MOST_ROWS = 60


@command(RELEASE, KNOWS, ESTIMATOR, ENDING, written=(".json", ".csv", ".npz"))
def diagnose(
    args: Arguments,
    order: Annotated[int, typer.Option(help="Highest degree of the monomials of the fields.")] = 3,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Also predict what fewer draws, fewer digits, tables or fits would reveal."),
    ] = False,
    bound: Annotated[
        bool,
        typer.Option(
            "--bound", help="Compute 99 % bounds instead, over all data inside the --domain of every unknown field."
        ),
    ] = False,
    releases: Annotated[
        int | None,
        typer.Option(help="With --plan: number of sanitised releases to come, to say what worth each may have."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="With --plan, --delta and --domain: predict what this epsilon would cost. May be repeated."),
    ] = None,
    delta: options.Delta = None,
    budget: Annotated[float | None, typer.Option(help="With --releases: as in sanitise.")] = None,
    account: Annotated[str | None, typer.Option(help="With --releases: as in sanitise.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="With --releases: as in sanitise.")] = None,
) -> None:
    """Report what a release determines about its data, and what stays hidden."""
    from dataclasses import replace

    from bayesrecon.cli import inputs
    from bayesrecon.disclosure.bounds import bound as run_bound
    from bayesrecon.disclosure.diagnosis import diagnose as run
    from bayesrecon.disclosure.planner import plan as run_plan
    from bayesrecon.divergence.metrics import Metric

    if plan and bound:
        raise BayesreconError("--plan and --bound answer different questions: give only one of them")
    if not plan and any(x is not None for x in (releases, epsilon, delta, budget, account, ledger)):
        raise BayesreconError("--releases, --epsilon, --delta, --budget, --account and --ledger need --plan")
    if order < 0:
        raise BayesreconError(f"--order {order}: expected 0 or more")
    metric = Metric(args.metric, args.coordinates)
    opened = inputs.open_release_of(args)
    knows = inputs.knowledge_of(args, opened.model)
    with args.working() as how:
        if bound:
            bounds = run_bound(opened, metric=metric, force=args.force, **how, **knows)
            return args.deliver(bounds, "diagnosis.plot_bounds", lambda r: [bounds_table(r)])
        counted = {"releases": releases, "budget": budget, "account": account, "ledger": ledger}
        asked: dict[str, Any] = {**counted, "epsilon": epsilon, "delta": delta}
        planned = run_plan(opened, **asked, **how, **knows) if plan else None
        result = run(opened, order=order, metric=metric, force=args.force, **how, **knows)
    notes: tuple[str, ...] = ()
    if planned is not None:
        result, notes = replace(result, plan=planned), planned.warnings
    args.deliver(
        result,
        "diagnosis.plot_diagnosis",
        lambda r: _tables(r, args.details),
        [note for note in notes if note not in result.warnings],
    )


COMMAND = diagnose


def _tables(result: "Diagnosis", details: bool) -> "list[str | Table]":
    planned = [] if result.plan is None else _planned(result.plan)
    if details:
        return [result.headline, feature_table(result, details), eigenfunction_table(result), *planned]
    return [in_short(result), feature_table(result), *planned]


def in_short(result: "Diagnosis") -> str:
    """How much of the data is determined, in a sentence."""
    sums = f"{result.resolved} of {result.rank}" if result.draws > 1 else f"{result.rank}"
    kind = "" if result.gap else "; weaker ones are hidden by the noise"
    return f"{result.release}: it reveals {sums} independent sums over the records{kind}"


def _planned(plan: "Plan") -> "list[str | Table]":
    """An attacker's errors for each way to publish, and the remedies that protect as well as the least worth does."""
    worths = [worth for outlook in plan.outlooks for worth, error in outlook.sanitised.items() if error]
    series = [] if plan.series is None else [plan.series.sentence.replace("budget=", "--budget ")]
    series += [price.sentence for price in plan.prices]
    return [plan_table(plan), *([equal_table(plan, min(worths))] if worths else []), *series]


def plan_table(result: "Plan") -> "Table":
    """One row per way to publish, one column per statistic."""
    from bayesrecon.cli.rich_tables import number, table

    frame = result.to_dataframe().T
    title = f"{result.release}: an attacker's errors from fewer draws, fewer digits, summaries and sanitised draws"
    rows = ((str(way), *(number(None if v is None or v != v else v, 3) for v in row)) for way, row in frame.iterrows())
    return table(["", *map(str, frame.columns)], rows, title=title)


def equal_table(result: "Plan", worth: int) -> "Table":
    """How far each remedy has to go to protect as sanitised draws do, one column per statistic that they hide."""
    from bayesrecon.cli.rich_tables import table

    found = {o.name: result.as_protective(o.name, worth) for o in result.outlooks if o.sanitised.get(worth)}
    ways = next(iter(found.values()), {})
    cells = {way: [one.get(way) for one in found.values()] for way in ways}
    rows = ((way, *("none planned" if v is None else f"{v:g}" for v in row)) for way, row in cells.items())
    return table(["", *found], rows, title=f"at most this many protect as well as sanitised draws worth {worth}")


def bounds_table(result: "Bounds") -> "Table":
    """One row per statistic: the ends of its interval and their distance."""
    from bayesrecon.cli.rich_tables import number, table

    where = ", ".join(f"{k} in {v}" for k, v in result.domain.items())
    title = f"{result.release}: {result.level:.0%} bounds over data sets with {where}"
    rows = ((i.name, number(i.lower), number(i.upper), number(i.width)) for i in result.intervals)
    return table(["statistic", "lower", "upper", "width"], rows, title=title)


def feature_table(result: "Diagnosis", details: bool = False) -> "Table":
    """One row per feature, the first 60; with details, also its order, its visibility and the floor."""
    from bayesrecon.cli.rich_tables import number, share, table, verdict

    if not details:
        head, title = ["sum of", "std. error", "verdict"], "sums over the records (fields standardised)"
        rows = [[f.name, number(f.se, 3), verdict(f.verdict)] for f in result.features]
        return table(head, rows, title=title, caption="more with --details", most=_MOST_ROWS)
    head = ["feature", "order", "visibility", "seen with these draws", "std. error", "floor", "verdict"]
    rows = []
    for f in result.features:
        order = str(f.order) if f.order or f.name == "1" else ""
        shares = [share(f.visibility), share(f.seen)]
        rows.append([f.name, order, *shares, number(f.se, 3), number(f.floor, 3), verdict(f.verdict)])
    return table(head, rows, title="features of a record, standardised", most=_MOST_ROWS)


def eigenfunction_table(result: "Diagnosis") -> "Table":
    """The leading eigenfunctions of the kernel, in words."""
    from bayesrecon.cli.rich_tables import table

    found = enumerate(result.eigenfunctions, 1)
    rows = ((in_words(e), str(k), f"{e.eigenvalue:.2g}", f"{e.noise:.1g}") for k, e in found)
    return table(["mostly", "", "eigenvalue", "noise"], rows, title="leading eigenfunctions of the kernel", fold=True)


def in_words(function: "Eigenfunction") -> str:
    """Shares of its variance: "53 % constant, 39 % dist"."""
    parts = [f"{100 * part:.0f} % {'constant' if name == '1' else name}" for name, part in function.loads]
    return ", ".join(parts) or "no feature above 5 %"
