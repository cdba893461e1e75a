"""`bayesrecon outputs`: one input from what a model answered to it, or what its answers would give away."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesrecon.cli import options
from bayesrecon.cli.command import ENDING, Arguments, command
from bayesrecon.cli.delivery import check_suffix
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrecon.posteriors.fits.model_outputs import Predict
    from bayesrecon.results.input_estimate import InputEstimate

_ROWS = 30
_METHODS = ("linear-decoding", "posterior-sampling", "output-inversion", "trained-decoding")


@command(ENDING, written=(".json", ".csv", ".npz"))
def outputs(
    args: Arguments,
    model: Annotated[str, typer.Argument(help="FILE.py:predict, a function of records (m, *shape) to outputs (m, k).")],
    public: Annotated[
        str, typer.Option(help="Records from the same distribution (.npy, or .npz with one array, or one named x).")
    ],
    outputs: Annotated[
        str | None, typer.Option(help="The model's outputs for the private record (.npy, .npz: z).")
    ] = None,
    view: Annotated[str, typer.Option(help="What was released: logits, softmax, rounded, argmax.")] = "logits",
    decimals: Annotated[
        int | None, typer.Option(help="Number of decimals of a rounded softmax.", show_default=False)
    ] = None,
    noise: Annotated[float, typer.Option(help="Standard deviation of the noise added to every output.")] = 0.0,
    image: Annotated[
        str | None, typer.Option(help="HEIGHTxWIDTH: records are images, with pixels from 0 to 1.")
    ] = None,
    attack: Annotated[str, typer.Option(help=" | ".join(_METHODS))] = _METHODS[0],
    decoder: Annotated[str | None, typer.Option(help="FILE.py:decode, outputs (m, k) to records.")] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit what the outputs would reveal, before they are released.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="With --audit: write the report to this .html file.")] = None,
    details: options.Details = False,
    fail_on: Annotated[
        str | None,
        typer.Option(help="With --audit: exit with 1 on a finding of at least this severity: low, medium or high."),
    ] = None,
) -> None:
    """Recover one input from a model's outputs for it; with --audit, report what the outputs would reveal.

    Exit codes of --audit: 0 done, 1 a finding at --fail-on or above, 2 bad input, 3 incomplete (no --decoder).
    """
    from bayesrecon.cli import option_values
    from bayesrecon.cli.audits import check_writable
    from bayesrecon.posteriors.formats.npz import read_array

    check_suffix(html, (".html", ".htm"), "--html")
    check_writable(html, args.out)
    shape = option_values.image_shape(image)
    _check(audit, outputs, html, fail_on, attack, decoder)
    predict = _function(model, "the model's function", "MODEL")
    decode = None if decoder is None else _function(decoder, "the decoder's function", "--decoder")
    records = read_array(public, name="x")
    values = None if shape is None else (0.0, 1.0)
    if shape is not None and records[:1].size != shape[0] * shape[1]:
        raise BayesreconError(f"--image {image}: records of {public} have {records[:1].size} values each")
    if audit:
        from bayesrecon.auditing.audit_outputs import audit_outputs
        from bayesrecon.cli.audits import finish

        if args.out is not None and args.out.suffix == ".npz":
            raise BayesreconError(f"--out {args.out}: an audit is written to .csv or .json")
        audit_result = audit_outputs(predict, records, decoder=decode, values=values, name=model, key=args.seed)
        finish(args, audit_result, html, fail_on)
        return
    from bayesrecon.attacks.attack import attacks
    from bayesrecon.attacks.reconstruction import reconstruct
    from bayesrecon.posteriors.fits.model_outputs import outputs as release_of_outputs

    z = read_array(str(outputs), name="z")
    release = release_of_outputs(
        predict,
        z,
        public=records,
        noise=noise,
        view=view,  # type: ignore[arg-type]
        decimals=decimals,
        values=values,
        name=str(outputs),
    )
    chosen = attacks()[attack](**({} if decode is None else {"decoder": decode}))
    with args.working() as how:
        result = reconstruct(release, attack=chosen, **how)
    if args.plot is not None:
        result.plot(shape=shape, path=args.plot)
    args.values["plot"] = None
    args.deliver(result, None, lambda r: [r.headline, shown(r, details)])


COMMAND = outputs


def _check(
    audit: bool, outputs: str | None, html: Path | None, fail_on: str | None, attack: str, decoder: str | None
) -> None:
    """Options that do not go together."""
    if attack not in _METHODS:
        raise BayesreconError(f"--attack {attack}: expected {', '.join(_METHODS)}")
    if fail_on not in (None, "low", "medium", "high"):
        raise BayesreconError(f"--fail-on {fail_on}: expected low, medium or high")
    if audit and outputs is not None:
        raise BayesreconError("--audit queries the model itself: leave --outputs out")
    if not audit and outputs is None:
        raise BayesreconError("give the model's outputs, --outputs FILE.npy, or --audit")
    if not audit and (html is not None or fail_on is not None):
        raise BayesreconError("--html and --fail-on need --audit")
    if not audit and (decoder is None) is (attack == "trained-decoding"):
        raise BayesreconError("--decoder FILE.py:decode goes with --attack trained-decoding, or with --audit")


def _function(spec: str, what: str, option: str) -> "Predict":
    from bayesrecon.cli.own_files import load_object

    loaded = load_object(spec, what, option)
    if not callable(loaded):
        raise BayesreconError(f"{option} {spec}: this is a {type(loaded).__name__}, not a function")
    return loaded


def shown(result: "InputEstimate", details: bool = False) -> "Table":
    """The fields with the best visibility and their intervals; with details, the visibility as well."""
    from bayesrecon.cli.rich_tables import number, table

    frame = result.to_dataframe().sort_values("visibility", ascending=False, kind="stable").reset_index()
    rows = (
        [str(row["field"]), *map(number, list(row.values())[1 : 6 if details else 5]), str(row["verdict"])]
        for row in frame.to_dict("records")
    )
    visible = ["visibility"] if details else []
    return table(["field", "estimate", "std. error", "lower", "upper", *visible, "verdict"], rows, most=_ROWS)
