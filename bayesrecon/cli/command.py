"""Commands, and the blocks of options that several of them share."""

import inspect
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from typer.models import OptionInfo

from bayesrecon.cli import options
from bayesrecon.cli.delivery import FIGURES, check_places, check_suffix, deliver
from bayesrecon.errors import BayesreconError, Note, beside

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesrecon.model import Progress
    from bayesrecon.results.base import Result

R = TypeVar("R", bound="Result")
Parameters = Mapping[str, tuple[object, object]]
"""`{name: (annotation, default)}`."""

MODEL: Parameters = {
    "model": (options.ModelOption, None),
    "settings": (options.Settings, None),
    "constants": (options.Constants, None),
    "power": (options.Power, None),
    "correlations": (options.Correlations, None),
    "formula": (options.Formula, None),
    "column": (options.Column, None),
    "trusted": (options.Trusted, False),
}
RELEASE: Parameters = {
    "release": (options.Sources, inspect.Parameter.empty),
    **MODEL,
    "draws": (options.Draws, None),
    "weights": (options.Weights, None),
    "download": (options.Download, False),
}
KNOWS: Parameters = {
    "known": (options.Known, None),
    "unit": (options.Unit, None),
    "total": (options.Total, None),
    "domain": (options.Domain, None),
    "factors": (options.Factors, None),
    "fit_weights": (options.FitWeights, None),
    "offset": (options.Offset, None),
}
ESTIMATOR: Parameters = {
    "metric": (options.Metric, None),
    "coordinates": (options.Coordinates, None),
    "force": (options.Force, False),
    "details": (options.Details, False),
}


_SOURCES = ("release", "files", "before", "after", "table", "data")  # parameters that are files
_NAMED = ("release", "files", "before", "after")  # those that can be posteriors of posteriordb
_READ = (*_SOURCES, "model", "constants", "correlations", "known", "candidates", "truth", "outputs", "decoder", "name")
ENDING: Parameters = {"seed": (options.Seed, 0), "plot": (options.Plot, None), "json": (options.Json, False)}


def only(block: Parameters, *names: str) -> Parameters:
    """The options of a block with these names."""
    return {name: block[name] for name in names}


class Running(TypedDict):
    """Keywords of a verb while it runs."""

    key: int
    progress: "Progress"


class Arguments:
    """Values of the shared options of a call, as attributes.

    Attributes:
        options: how each keyword is typed.
    """

    def __init__(self, values: Mapping[str, Any], options: Mapping[str, str]):
        self.values, self.options = dict(values), options

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    @contextmanager
    def working(self) -> Generator[Running]:
        """Show a progress bar. Yields seed and progress as keywords of a verb."""
        from bayesrecon.cli import console

        with console.progress_bar() as progress:
            yield {"key": self.seed, "progress": progress}

    def deliver(
        self,
        result: R,
        draw: str | None,
        show: "Callable[[R], Iterable[RenderableType]]",
        notes: Iterable[str] = (),
    ) -> None:
        """Output a result: warnings, files, a plot, then JSON or tables."""
        say = partial(typed, options=self.options)
        deliver(result, out=self.out, plot=self.plot, draw=draw, json=self.json, show=show, notes=notes, say=say)


def check_read(values: Mapping[str, object], *, folders: bool) -> None:
    """Raise an error if a file or a posterior that is read does not exist, or a source is a folder, before anything is
    loaded that would read it."""
    posteriors = []
    for name in _READ:
        value = values.get(name)
        for word in value if isinstance(value, list) else [value]:
            if not isinstance(word, str):
                continue
            path = re.sub(r"\.py:\w+$", ".py", word)  # an object in a file
            suffix = os.path.splitext(path)[1]
            if os.path.isdir(path):
                if name in _SOURCES and not folders and not suffix:
                    raise BayesreconError(
                        f"{path} is a folder; name a file in it, or a zarr store, a folder named *.zarr"
                    )
            elif os.path.lexists(path):
                continue
            elif re.search(r"\.[A-Za-z]\w*$", path):
                raise BayesreconError(f"{path}: no such file{beside(path)}")
            elif name in _NAMED and not suffix:
                posteriors.append(path)
    if posteriors and not values.get("download"):
        from bayesrecon.posteriors.fitting.database import open_database, posterior_info

        try:
            database = open_database()
        except BayesreconError as error:
            raise BayesreconError(f"{posteriors[0]}: no such file or folder, and {error}") from None
        for name in posteriors:
            posterior_info(database, name)


def check_files(values: Mapping[str, object]) -> None:
    """Raise an error if a file to write is also read. Paths are written. Texts may name files that are read."""
    written = {f"--{name.replace('_', '-')}": value for name, value in values.items() if isinstance(value, Path)}
    words = [word for value in values.values() for word in (value if isinstance(value, list) else [value])]
    check_places(written, [word for word in words if isinstance(word, str)])


@contextmanager
def as_typed(options: Mapping[str, str]) -> Generator[None]:
    """Let messages name what is typed on the command line.

    Args:
        options: `{keyword: option}`.

    >>> with as_typed({"worth": "--worth"}):
    ...     raise BayesreconError("use worth=320, or state worth= again")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: use --worth 320, or state --worth again
    """
    try:
        yield
    except BayesreconError as error:
        raise BayesreconError(typed(str(error), options)) from error


def typed(text: str, options: Mapping[str, str]) -> str:
    """A text with options in the place of keywords, and without what is said of Python.

    >>> typed("say --draws (rows='draws' in Python), or pass total=20", {"total": "--total"})
    'say --draws, or pass --total 20'
    >>> typed("force=True shows them, weights=False (--weights none) all", {"force": "--force", "weights": "--weights"})
    '--force shows them, --weights none all'
    >>> typed("domain={'sex': 'binary', 'age': (low, high)} narrows it", {})
    '--domain sex=binary --domain age=LOW:HIGH narrows it'
    >>> typed("metric='euclid': pass known={'iq': values}", {"metric": "--metric", "known": "--known"})
    '--metric euclid: pass --known FILE'
    """
    names = "|".join(options)
    spoken = _DOMAINS.sub(_domains, re.sub(r" \([^()]* in Python\)", "", text))
    spoken = re.sub(rf"(?<![\w-])({names})=\{{[^{{}}]*\}}", lambda m: f"{options[m[1]]} FILE", spoken)
    spoken = re.sub(rf"(?<![\w-])({names})=(['\"])([\w.-]+)\2", lambda m: f"{options[m[1]]} {m[3]}", spoken)
    spoken = re.sub(rf"(?<![\w-])({names})=\S+ \((--[\w -]+)\)", lambda m: m[2], spoken)
    spoken = re.sub(rf"(?<![\w-])({names})=True\b", lambda m: options[m[1]], spoken)
    spoken = re.sub(rf"(?<![\w-])({names})=(?=(\S)?)", lambda m: options[m[1]] + " " * _is_value(m[2]), spoken)
    return Note(spoken) if isinstance(text, Note) else spoken


_DOMAINS = re.compile(r"\bdomain=\{([^{}]+)\}")
_DOMAIN = re.compile(r"""['"]([^'"]+)['"]: (?:['"](\w+)['"]|[([]([^()\[\]]+)[)\]])""")


def _domains(stated: re.Match[str]) -> str:
    """A mapping of domains as it is typed: `--domain x=binary --domain y=0:1`."""
    found = _DOMAIN.findall(stated[1])
    ends = [(name, word or ":".join(end.strip() for end in pair.split(",")).upper()) for name, word, pair in found]
    return " ".join(f"--domain {name}={value}" for name, value in ends) or stated[0]


def _is_value(following: str | None) -> bool:
    return following is not None and (following.isalnum() or following in "'\"{<-")


def _option(name: str, annotation: object) -> str | None:
    """The option of a parameter as it is typed; None for an argument."""
    info = next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, OptionInfo)), None)
    if info is None:
        return None
    long = [word.partition("/")[0] for word in info.param_decls or () if word.startswith("--")]
    return long[0] if long else f"--{name.replace('_', '-')}"


def command(
    *blocks: Parameters, written: tuple[str, ...] = (), more: Parameters | None = None, folders: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that makes a command. The function gets the shared options as `Arguments`, and its own as keywords.

    Args:
        blocks: blocks of shared options.
        written: suffixes of the files that `--out` writes. If there are none, there is no such option.
        more: further options, which the function gets as keywords.
        folders: whether a source can be a folder of files.
    """
    shared = {name: pair for block in blocks for name, pair in block.items()}
    shared |= {"out": (options.out(written), None)} if written else {}

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        listed = list(inspect.signature(function).parameters.values())[1:]
        function_options = {
            p.name: (p.annotation, p.default) for p in listed if p.kind is not inspect.Parameter.VAR_KEYWORD
        }
        function_options |= dict(more or {})
        all_options = {**shared, **function_options}
        spelled = {
            name: option for name, (annotation, _) in all_options.items() if (option := _option(name, annotation))
        }

        def call(**values: Any) -> None:
            args = Arguments({name: values[name] for name in shared if name not in function_options}, spelled)
            check_suffix(values.get("out"), written, "--out")
            check_suffix(values.get("plot"), FIGURES, "--plot")
            check_files(values)
            with as_typed(spelled):
                check_read(values, folders=folders)
                function(args, **{name: values[name] for name in function_options})

        required = [name for name, (_, default) in all_options.items() if default is inspect.Parameter.empty]
        ordered = {
            name: all_options[name] for name in (*required, *(name for name in all_options if name not in required))
        }
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, (annotation, default) in ordered.items()
            ]
        )
        call.__annotations__ = {name: annotation for name, (annotation, _) in ordered.items()}
        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call

    return wrap
