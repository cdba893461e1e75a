"""Texts, names and labels: which describe how a file was made, which number its entries, and which may be personal."""

import calendar
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import digits_of, is_levels, structure_of
from bayesrecon.errors import BayesreconError
from bayesrecon.results.mechanism import Mechanism
from bayesrecon.untrusted.decoded_values import as_numbers

EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.]{1,190}")  # the limits of e-mail addresses bound the search
PATH = re.compile(r"(?<![\w<>/:])(?:[A-Za-z]:\\|\\\\|~?/)(?:[^\s/\\<>\"']+[/\\])+[^\s/\\<>\"']*")

_VERSION = re.compile(r"v?\d{1,4}(\.\d{1,5}){0,3}([-.+]?(a|b|rc|dev|post|alpha|beta)?\.?\d{0,4})")
_BUILD = re.compile(r"version=\d+(,\w{2,16}=[0-9a-z.+-]{1,16}){0,6}")
_LIBRARIES = {
    "arviz", "arviz_base", "bambi", "bayesrecon", "blackjax", "brms", "cmdstan", "cmdstanpy", "cmdstanr", "emcee",
    "h5netcdf", "jags", "netcdf4", "numpyro", "nutpie", "posterior", "posteriordb", "pyjags", "pymc", "pymc3", "pyro",
    "pystan", "rstan", "rstanarm", "stan", "tfp", "xarray", "zeus",
}  # fmt: skip
_SAMPLERS = {"nuts-rs", "nuts", "hmc", "mclmc"}
_SETTINGS, _IN_LIST = 60, 3  # largest number of numbers among a sampler's settings, each with few digits, and in a list
_CHOSEN = 3  # largest number of digits of a number that a person chose
_LANGUAGES = {"python", "r", "julia", "stan"}
_LICENCES = re.compile(
    r"(cc[- ]?by([- ](sa|nc|nd|nc-sa|nc-nd))?([- ]\d\.\d)?|cc0([- ]\d\.\d)?|mit|apache[- ]2\.0|bsd(-\d-clause)?|"
    r"gpl(v?\d|-\d\.\d)?|odbl|odc-by|public domain|pddl)", re.IGNORECASE
)  # fmt: skip
_UNIT = re.compile(r"1|%|[a-z]{1,12}|[a-zA-Zµμ°Ω%]{1,5}(-?\d)?(([ ./*^]|\*\*)(-?\d|[a-zA-Zµμ°%]{1,4}(-?\d)?)){0,3}")
_DOI = re.compile(r"(https?://(dx\.)?doi\.org/|doi:)?10\.\d{4,6}/(?!(\D*\d){15})[\w.();/:-]{1,48}")
_HISTORY = re.compile(r"\w{3} \w{3} +\d{1,2} [\d:]{8} \d{4}: (?!(.*\d[.,]\d){4})[^@]{1,400}")
_COMMIT = re.compile(r"[0-9a-f]{7,12}|[0-9a-f]{40}")
_CONVENTIONS = re.compile(r"(CF|ACDD|COARDS|ArviZ)-?\d{0,2}(\.\d{1,2})?", re.IGNORECASE)
_WORTH = re.compile(r"worth [0-9.e+]{1,12} draws, cap [0-9]{1,3}")
_MEASURE = re.compile("[0-9a-f]{32}")
_WHOLE, _DECIMAL = re.compile(r"\d+"), re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_AXES = {"chain", "draw", "sample", ""}  # "" because netCDF has no empty lists of strings

Check = Callable[[object], bool]


def _text(check: Callable[[str], object], most: int = 64) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= most and bool(check(value.strip()))


def _is_mechanism(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(Mechanism.from_json(value))
    except BayesreconError:
        return False


def is_date(text: str) -> bool:
    """Whether a text is a date between the years 2000 and 2100."""
    try:
        return 2000 <= datetime.fromisoformat(text.replace(" UTC", "+00:00").strip()).year < 2100
    except ValueError:
        return False


def _number(low: float, high: float, whole: bool = False) -> Check:
    def check(value: object) -> bool:
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "biuf":
            return False
        number = float(array.reshape(-1)[0])
        return low <= number <= high and (not whole or number == round(number))

    return check


def _settings(value: object, most: int = 4, listed: int = 4) -> bool:
    """Whether a value is a JSON object of a few plain constants, as this package and nutpie write for their models.

    Keys that differ only in their numbers, such as `a1` to `a60`, are no names of settings.
    """
    try:
        content = json.loads(value) if isinstance(value, str) else value if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return False
    nodes = list(_nodes(content))
    keys = [list(node) for node in nodes if isinstance(node, dict)]
    words = [*(key for names in keys for key in names), *(node for node in nodes if isinstance(node, str))]
    plain = all(map(_IDENTIFIER.fullmatch, words)) and all(len(n) <= listed for n in nodes if isinstance(n, list))
    different = all(len({key.rstrip("0123456789") for key in names}) == len(names) for names in keys)
    numbers = sum(node is not None and not isinstance(node, str | list | dict) for node in nodes)
    return content is not None and plain and different and numbers <= most


def _nodes(content: object) -> Iterator[object]:
    """Everything in nested dictionaries and lists."""
    waiting = [content]
    while waiting:
        yield (node := waiting.pop())
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _are_round(value: object) -> bool:
    """Whether all numbers in nested settings have few digits or are multiples of pi."""
    numbers = (node for node in _nodes(value) if isinstance(node, float) and node != math.pi)
    return all(digits_of(number) <= _CHOSEN for number in numbers)


def _fill(value: object) -> bool:
    array = np.asarray(value).reshape(-1)
    if array.size != 1 or array.dtype.kind not in "biuf":
        return array.size == 1 and str(array[0]) in ("", "nan")
    number = float(array[0])
    return (
        not np.isfinite(number)
        or number in (0, 1, -1, 255)
        or abs(number) in (99, 999, 9999, 99999)
        or abs(number) > 1e15
    )


def _is_phrase(text: str) -> bool:
    """Whether a text is a phrase that describes a variable: few digits, and words that are not all names."""
    return sum(map(str.isdigit, text)) <= _MOST_DIGITS and not EMAIL.search(text) and not _PERSON.fullmatch(text)


_library = _text(lambda t: t.lower().replace("-", "_") in _LIBRARIES)
_version = _text(_VERSION.fullmatch, 24)


def _chosen(low: float, high: float, whole: bool = False) -> Check:
    """A number that a person chose has few digits."""
    check = _number(low, high, whole)
    return lambda value: check(value) and digits_of(float(np.asarray(value).ravel()[0])) <= _CHOSEN


KNOWN: dict[str, Check] = {
    "created_at": _text(is_date),
    "creation_library_language": _text(lambda t: t.lower() in _LANGUAGES),
    **dict.fromkeys(("creation_library", "inference_library", "modeling_interface"), _library),
    "bayesrecon_model": _text(_IDENTIFIER.fullmatch),
    "bayesrecon_model_settings": _settings,
    **dict.fromkeys(("bayesrecon_power", "bayesrecon_tolerance"), _text(_DECIMAL.fullmatch, 24)),
    **{f"bayesrecon_{name}": _text(_WHOLE.fullmatch, 9) for name in ("chains", "draws", "warmup", "thin")},
    "sampler": _text(lambda t: t.lower() in _SAMPLERS),
    **dict.fromkeys(("sampler_kind", "adaptation_kind"), _text(_IDENTIFIER.fullmatch, 24)),
    "sampler_settings": lambda v: _settings(v, _SETTINGS, _IN_LIST) and _are_round(v),
    "bayesrecon_sanitised": _text(_WORTH.fullmatch, 40),
    "bayesrecon_measure": _text(_MEASURE.fullmatch, 32),
    "bayesrecon_guaranteed": _is_mechanism,
    "sample_dims": lambda v: set(map(str, np.ravel(np.asarray(v)))) <= _AXES,
    "sampling_time": _number(0, 1e8),
    **dict.fromkeys(("tuning_steps", "num_draws", "num_samples", "num_warmup", "thinning"), _chosen(0, 1e9, True)),
    "conventions": _text(_CONVENTIONS.fullmatch),
    **dict.fromkeys(("_fillvalue", "missing_value", "fill_value"), _fill),
    **dict.fromkeys(("scale_factor", "add_offset"), _chosen(-1e6, 1e6)),
    "_ncproperties": _text(_BUILD.fullmatch, 160),
    "doi": _text(_DOI.fullmatch, 96),
    **dict.fromkeys(("license", "licence"), _text(_LICENCES.fullmatch)),
    **dict.fromkeys(("commit", "git_commit", "revision", "sha"), _text(_COMMIT.fullmatch)),
    **dict.fromkeys(("long_name", "standard_name", "title"), _text(_is_phrase, 100)),
    "history": _text(lambda t: all(map(_HISTORY.fullmatch, t.splitlines())), 4000),
    **dict.fromkeys(("elpd", "elpd_loo", "elpd_waic", "p_loo", "p_waic", "looic", "waic"), _number(-1e12, 1e12)),
    **dict.fromkeys(("units", "unit"), _text(_UNIT.fullmatch, 24)),
}
"""Known attributes, each with a test of its value."""


def are_versions(values: object) -> bool:
    """Whether texts, or a text with commas, are versions of packages, most of them with three numbers or more.

    >>> are_versions("0.4.2, 1.12.0, 3.1"), are_versions("41.7, 17.25, 63.1")
    (True, False)
    """
    texts = values.split(", ") if isinstance(values, str) else [str(v) for v in np.ravel(np.asarray(values))]
    numbers = [text.count(".") for text in texts if _VERSION.fullmatch(text)]
    return len(numbers) == len(texts) > 1 and sum(n > 1 for n in numbers) > len(texts) / 2


def is_known(name: str, value: object) -> bool:
    """Whether an attribute has a known name and a plausible value.

    >>> is_known("arviz_version", "0.23.4"), is_known("arviz_version", "41, 63, 17"), is_known("note", "0.23.4")
    (True, False, False)
    """
    check = KNOWN.get(name.lower()) or (_version if name.lower().endswith("version") else None)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "US":
        value = str(value.reshape(-1)[0])
    if isinstance(value, str) and hasattr(np.random, value):  # the name of a generator
        return True
    return check is not None and bool(check(value))


_FEWEST_COUNTIES, _ODD = 12, 0.95  # smallest number of codes, and share of odd ones; of other numbers half are odd
_YEARS, _IDENTIFIERS = (1800, 2200), 1000  # labels in this range are years; other labels from 1000 may be identifiers
Labels = Literal["positions", "levels", "numbers", "identifiers", "e-mail addresses", "words"]
_ENDING = re.compile(r"(.*?)(\d+)(\D{0,2})")
_CODE = re.compile(
    r".*\d{3,}.*|(?=.*\d)(?=.*[a-f])[0-9a-f]{6,}|.*\d.*[A-Za-z]+.*\d.*|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", re.IGNORECASE
)


def kind_of_labels(values: np.ndarray) -> Labels:
    """The kind of labels of an axis.

    >>> kind_of_labels(["x1", "x2", "x3"]), kind_of_labels(["P4711", "P0815"]), kind_of_labels(["Bern", "Basel"])
    ('positions', 'identifiers', 'words')
    >>> kind_of_labels(["2001", "2003", "2007"]), kind_of_labels([41.73, 17.25]), kind_of_labels([1003, 1017, 1101])
    ('levels', 'numbers', 'identifiers')
    """
    array = np.ravel(np.asarray(values))
    if array.dtype.kind not in "biuf":
        texts = [str(v) for v in array]
        if any(EMAIL.search(t) for t in texts):
            return "e-mail addresses"
        numbers = as_numbers(np.array(texts))
        if numbers is None:
            if _are_numbered(texts) or _are_of_calendar(texts):
                return "positions"
            coded = sum(bool(_CODE.fullmatch(t)) for t in texts)
            return "identifiers" if 2 * coded > len(texts) else "words"
        array = numbers
    if array.size < 2 or structure_of(array) in ("positions", "a grid", "nothing"):
        return "positions"
    if _are_numbers_of_somebody(array):
        return "identifiers"
    return "levels" if is_levels(array) else "numbers"


def _are_numbers_of_somebody(array: np.ndarray) -> bool:
    """Whether labels are integers with at least four digits that are not years, such as patient numbers."""
    integers = bool(np.isfinite(array).all() and (array == np.round(array)).all())
    years = bool(np.all((array >= _YEARS[0]) & (array <= _YEARS[1])))
    different = len(np.unique(array)) == len(array)
    return integers and bool(array.min() >= _IDENTIFIERS) and not years and different and not _are_counties(array)


def _are_counties(codes: np.ndarray) -> bool:
    """Whether codes are those of counties of the USA: a state up to 56, and a number in it, nearly always an odd one.

    >>> _are_counties(27001 + 2 * np.arange(85)), _are_counties(27001 + 3 * np.arange(85))
    (True, False)
    """
    states, counties = np.divmod(codes, 1000)
    odd = float(np.mean(counties % 2))
    return (
        len(codes) >= _FEWEST_COUNTIES and odd >= _ODD and bool(np.all((states >= 1) & (states <= 56) & (counties > 0)))
    )


_SEASON = re.compile(r"(\d{4})[/-](\d{2}|\d{4})")
_MONTHS = {name.lower(): k for names in (calendar.month_name, calendar.month_abbr) for k, name in enumerate(names) if k}


def _are_of_calendar(texts: Sequence[str]) -> bool:
    """Whether labels are months, seasons such as 1990/91, or dates at equal steps of days or months.

    >>> _are_of_calendar(["1990/91", "1991/92"]), _are_of_calendar(["1950-03-11", "1962-08-30", "1971-01-02"])
    (True, False)
    """
    if len(set(texts)) < len(texts):
        return False
    if all(t.lower() in _MONTHS for t in texts):
        return True
    seasons = [_SEASON.fullmatch(t) for t in texts]
    if all(s and (int(s[1]) + 1) % 100 == int(s[2]) % 100 for s in seasons):
        return True
    try:
        dates = [datetime.fromisoformat(t[:26]) for t in texts]
    except ValueError:
        return False
    days = np.array([d.toordinal() * 86400 + d.hour * 3600 + d.minute * 60 + d.second for d in dates])
    months = np.array([12 * d.year + d.month for d in dates])
    steps = np.diff(days), np.diff(months) if len({d.day for d in dates}) == 1 else np.array([0, 1])
    return len(texts) > 2 and any(len(set(step.tolist())) == 1 and step[0] != 0 for step in steps)


def _are_numbered(texts: Sequence[str]) -> bool:
    """Whether labels are the same word followed by 0, 1, 2, ... or 1, 2, 3, ..."""
    parts = [_ENDING.fullmatch(t) for t in texts]
    if any(p is None for p in parts):
        return False
    words = {(p[1], p[3]) for p in parts if p}
    numbers = [int(p[2]) for p in parts if p and len(p[2]) < 10]
    return len(words) == 1 and len(numbers) == len(texts) and numbers in (
        list(range(len(texts))), list(range(1, len(texts) + 1))
    )  # fmt: skip


_PERSON = re.compile(r"[^\W\d_a-z][^\W\d_]+([ .,'-]{1,2}[^\W\d_]+){0,3}")  # words, the first one capitalised


def are_names_of_people(texts: "Sequence[object] | np.ndarray") -> bool:
    """Whether labels may be names of people: different capitalised words.

    >>> are_names_of_people(["Mira Holt", "Jonas", "Emil Lorenz"]), are_names_of_people(["ward1", "ward2", "ward3"])
    (True, False)
    """
    named = {str(t) for t in texts if _PERSON.fullmatch(str(t)) and any(c.islower() for c in str(t))}
    return len(named) > 0.8 * len(texts)


_NAME = re.compile(r"[^\W\d][\w.:|()\[\],\- /*^+~=']{0,79}")
_MOST_DIGITS = 4  # a name with more digits than a year contains an identifier


def odd_names(names: Sequence[str]) -> list[str]:
    """Names that contain values: too long, with many digits, or differing only in numbers that are not consecutive.

    >>> odd_names(["mu", "beta_1", "1|group_sigma", "log_sigma__"])
    []
    >>> odd_names(["age_41.7", "y=23.45, 17.22", "ann@example.org"])
    ['age_41.7', 'y=23.45, 17.22', 'ann@example.org']
    """
    odd, families = [], dict[str, list[str]]()
    for name in dict.fromkeys(names):
        digits = sum(c.isdigit() for c in name)
        plain = _NAME.fullmatch(name) or re.fullmatch(r"1\|[\w.:|()\[\], ]{1,70}", name)
        if not plain or digits > _MOST_DIGITS or re.search(r"\d[.,]\d", re.sub(r"\[[^\]]*\]", "", name)):
            odd.append(name)
        elif digits:
            families.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    for family, members in families.items():
        if family.count("#") == 1 and len(members) >= 5:
            numbers = sorted(int(re.findall(r"\d+", m)[0]) for m in members)
            gaps = numbers[-1] - numbers[0] + 1 - len(numbers)
            if gaps > len(numbers) // 4:
                odd += members
    return odd
