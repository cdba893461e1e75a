"""`bayesrecon deletion`: the record between two releases."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesrecon.cli.command import ENDING, KNOWS, MODEL, Arguments, command, only
from bayesrecon.cli.delivery import FIGURES, check_suffix
from bayesrecon.cli.estimate_tables import correlations_of, is_table
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesrecon.cli.deletions import Deletions
    from bayesrecon.model import Model, Records
    from bayesrecon.results.deletion import DeletedRecord, DeletionInference

_MOST_ROWS = 30
_HAPPENED = {
    "premise": "one candidate was deleted",
    "absent": "another record was deleted",
    "two": "two candidates were deleted",
    "replaced": "a candidate was replaced by another record",
    "added": "a record was added",
    "exchanged": "before and after are exchanged",
    "none": "nothing was deleted",
}


@command(MODEL, only(KNOWS, "total", "domain"), ENDING, written=(".json", ".csv", ".npz"))
def deletion(
    args: Arguments,
    before: Annotated[str, typer.Argument(help="Draws, a trained parameter or a table of estimates, with the record.")],
    after: Annotated[list[str], typer.Argument(help="The same without the record; several for several deletions.")],
    public: Annotated[
        str | None, typer.Option(help="Public records (.csv, .json, .npz); required for trained parameters.")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option(help="Records (.csv, .json, .npz), one of which was deleted; infers which one.")
    ] = None,
    response: Annotated[str, typer.Option(help="For a linear predictor: response column of the tables.")] = "y",
    image: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH: plot the records as images.")] = None,
    truth: Annotated[
        str | None,
        typer.Option(help="The deleted records (.csv, .json, .npz), one per AFTER; only used for comparison."),
    ] = None,
    cdf: Annotated[
        Path | None, typer.Option(help="Plot the distribution of the cosine similarity; needs --truth.")
    ] = None,
) -> None:
    """Reconstruct the record that was deleted between two releases, or infer which candidate it was."""
    import json
    from dataclasses import replace

    from bayesrecon.cli import inputs, option_values
    from bayesrecon.pairs import paired

    check_suffix(cdf, FIGURES, "--cdf")
    shape = option_values.image_shape(image)
    if cdf is not None and (truth is None or len(after) < 2):
        raise BayesreconError("--cdf needs --truth and more than one AFTER")
    if candidates is not None and (len(after) > 1 or truth is not None):
        raise BayesreconError("--candidates takes one AFTER and no --truth")
    if args.plot is not None and shape is None and candidates is None and len(after) > 1:
        raise BayesreconError("--plot of several deletions draws images: add --image HEIGHTxWIDTH, or use --cdf")
    domain = option_values.parse_domains(args.domain or ()) or None
    settings = json.dumps({"response": response}) if args.settings is None and is_table(before) else args.settings
    given = inputs.ReleaseOptions(model=args.model, settings=settings, power=args.power, trusted=args.trusted)
    if args.formula is not None:
        raise BayesreconError("--formula does not apply to a deletion; recover and audit accept it")
    correlations = [None if file is None else [file] for file in correlations_of([before, *after], args.correlations)]
    first = inputs.open_release([before], replace(given, correlations=correlations[0]))
    pairs = []
    for source, file in zip(after, correlations[1:], strict=True):
        second = inputs.open_release([source], replace(given, correlations=file))
        if args.model is not None and not is_table(source) and first.theta.shape[1] == second.theta.shape[1]:
            second = replace(second, model=first.model)  # a model file that was read twice
        pairs.append(paired(first, second))
    pair = pairs[0]
    known = None if public is None else _records(public, first.model, response)
    if candidates is not None:
        from bayesrecon.attacks.deletion.inferred import infer_deletion

        inference = infer_deletion(pair, _records(candidates, first.model, response), public=known, total=args.total)
        args.deliver(inference, "deletion.plot_inference", _show_inference)
        return
    if len(after) == 1 and truth is None and shape is None:
        from bayesrecon.attacks.choice import suited
        from bayesrecon.attacks.reconstruction import reconstruct
        from bayesrecon.results.deletion import DeletedRecord

        attack = suited(pair, {}, public=known)
        result = reconstruct(pair, attack=attack, total=args.total, domain=domain, key=args.seed)
        assert isinstance(result, DeletedRecord), "of a pair"
        args.deliver(result, "deletion.plot_deleted", _show_record)
        return
    from bayesrecon.cli.deletions import draw_images, several

    true = None if truth is None else _records(truth, first.model, response)
    results = several(pairs, public=known, truth=true, total=args.total, domain=domain, seed=args.seed)
    if args.plot is not None and shape is not None:
        draw_images(results, shape, args.plot, public=known, truth=true)
    if cdf is not None:
        from bayesrecon.plots import plot_similarity

        plot_similarity(results.cosines, path=cdf)
    args.values["plot"] = None
    if len(after) == 1 and truth is None:
        return args.deliver(results.found[0], "", _show_record)
    args.deliver(results, "", _show_all)


COMMAND = deletion


def _records(path: str, model: "Model", response: str) -> "Records":
    """A table as records: columns named like the fields, or the features of a linear predictor in their order."""
    import numpy as np

    from bayesrecon.domains import records_in
    from bayesrecon.posteriors.tables import read_table

    table = read_table(path)
    linear, held = model.linear, records_in(model.fields, table)
    if linear is not None and response in table:
        held[linear.y] = np.asarray(table[response])
    if linear is None or linear.x in held:
        return held
    names = [c for c in table if c != response]
    columns = []
    for name in names:
        try:
            columns.append(np.asarray(table[name], float))
        except (TypeError, ValueError, OverflowError):
            raise BayesreconError(
                f"{path}: the feature column {name!r} holds values that are not numbers; code it as the fit did, or "
                "name the response with --response"
            ) from None
    width = model.fields[linear.x].shape[0]
    if len(columns) != width:
        raise BayesreconError(
            f"{path} has {len(columns)} columns besides {response!r}, and the model has {width} features; "
            "name the response with --response"
        )
    return {linear.x: np.stack(columns, axis=1), **held}


def _show_record(result: "DeletedRecord") -> "Iterable[RenderableType]":
    from bayesrecon.cli.rich_tables import number, table

    evidence = "" if result.evidence is None else f", log evidence of a deletion {result.evidence:.1f}"
    frame = result.to_dataframe()
    heads = {"estimate": ("estimate", 5), "se": ("std. error", 2), "other": ("other label or sign", 5)}
    shown = {name: head for name, head in heads.items() if name in frame and frame[name].notna().to_numpy().any()}
    rows = (
        (str(name), *(number(row[column], digits) for column, (_, digits) in shown.items()))
        for name, row in frame.to_dict("index").items()
    )
    title = f"{result.title} ({result.method}{evidence})"
    yield table(["field", *(head for head, _ in shown.values())], rows, title=title, most=_MOST_ROWS)


def _show_inference(result: "DeletionInference") -> "Iterable[RenderableType]":
    from bayesrecon.cli.rich_tables import number, table

    frame = result.to_dataframe()
    title = f"which of {len(frame)} records was deleted ({result.method})"
    best = frame["log_likelihood"].iloc[0]
    lines = frame.head(10).iterrows()
    rows = ((str(n), f"{row['probability']:.3f}", f"{row['log_likelihood'] - best:.2f}") for n, row in lines)
    yield table(["row", "probability", "log likelihood"], rows, title=title)
    if result.hypotheses:
        shares = result.hypotheses.items()
        rows = ((_HAPPENED[n], f"{share:.3f}", f"{result.bayes_factors[n]:.1f}") for n, share in shares)
        yield table(["", "probability", "log Bayes factor"], rows, title="what happened")
    if result.deleted:
        rows = ((t.name, number(t.estimate), number(t.lower), number(t.upper)) for t in result.deleted)
        yield table(["", "estimate", "lower", "upper"], rows, title="what was deleted")


def _show_all(result: "Deletions") -> "Iterable[RenderableType]":
    import numpy as np

    from bayesrecon.cli.rich_tables import number, table

    rows = []
    for i, record in enumerate(result.found):
        label = record.record.get("y")
        label_text = str(np.asarray(label)) if label is not None and np.ndim(label) == 0 else ""
        similar = [number(float(v[i])) for v in result.cosines.values()]
        rows.append([record.after, label_text, number(record.effective_size, 3), *similar])
    head = ["after", "label", "effective records", *(f"cosine, {k}" for k in result.cosines)]
    yield table(head, rows, title=f"the records deleted from {result.found[0].before}", most=_MOST_ROWS)
    for name, values in result.cosines.items():
        yield f"{name}: median cosine similarity {np.nanmedian(values):.4f} over {len(values)} deletions"
