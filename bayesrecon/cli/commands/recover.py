"""`bayesrecon recover`: statistics of the private data, with errors."""

from bayesrecon.cli.command import ENDING, ESTIMATOR, KNOWS, RELEASE, Arguments, command


@command(RELEASE, KNOWS, ESTIMATOR, ENDING, written=(".nc", ".json", ".csv", ".npz"))
def recover(args: Arguments) -> None:
    """Recover statistics of the private data behind a release, with standard errors.

    Several posteriordb names, several .nc, .zarr or .npz files, or several tables of estimates, are taken as releases
    of one data set and are pooled.
    """
    from bayesrecon.attacks.recovery import recover as run
    from bayesrecon.cli import inputs, rich_tables
    from bayesrecon.divergence.metrics import Metric

    metric, opened = Metric(args.metric, args.coordinates), inputs.open_releases_of(args)
    with args.working() as how:
        source = opened if len(opened) > 1 else opened[0]
        result = run(source, metric=metric, force=args.force, **how, **inputs.knowledge_of(args, opened[0].model))
    args.deliver(
        result, "recovery_summary.plot_summary", lambda r: [rich_tables.recovery_table(r, details=args.details)]
    )


COMMAND = recover
