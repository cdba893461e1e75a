"""ACS income: people in the American Community Survey, task ACSIncome (Ding, Hardt, Miller and Schmidt 2021)."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from bayesrecon.datasets.data_files import BoundedStream, LabelledData, checked_folder, joined, opened
from bayesrecon.errors import BayesreconError, near

FEATURES = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P")
INCOME, WEIGHT = "PINCP", "PWGTP"
THRESHOLD = 50_000.0

# State codes in the file names of the Census Bureau.
_CODES = (
    "AL01 AK02 AZ04 AR05 CA06 CO08 CT09 DE10 DC11 FL12 GA13 HI15 ID16 IL17 IN18 IA19 KS20 KY21 LA22 ME23 MD24 MA25 "
    "MI26 MN27 MS28 MO29 MT30 NE31 NV32 NH33 NJ34 NM35 NY36 NC37 ND38 OH39 OK40 OR41 PA42 RI44 SC45 SD46 TN47 TX48 "
    "UT49 VT50 VA51 WA53 WV54 WI55 WY56 PR72"
)
STATES = {code[:2]: code[2:] for code in _CODES.split()}
_CHUNK, _MOST = 100_000, 10_000_000  # rows per chunk, and rows per state at most: more than any state has


def acs_income(
    folder: str | Path, states: str | Sequence[str] = "CA", *, threshold: float | None = THRESHOLD, year: int = 2018
) -> LabelledData:
    """Ten features of working adults, and whether their income is above a threshold.

    The data contain people with AGEP > 16, PINCP > 100, WKHP > 0 and PWGTP >= 1. The features are AGEP, COW, SCHL, MAR,
    OCCP, POBP, RELP, WKHP, SEX and RAC1P, with the survey's own codes and numbers. Most of them are categorical.

    Args:
        folder: folder with `psam_p06.csv` (California; 06 is the state's code), directly or in `2018/1-Year`; plain,
            with `.gz`, in a `.zip` of that name, or in the Census Bureau's `csv_pca.zip`.
        states: one or several two-letter codes. The records are in the order of the states.
        threshold: in dollars. With None the response is the income itself, in dollars.
        year: year of the survey. From 2019 on the files have no RELP.

    Returns:
        `x (N, 10)`; `y (N,)` is 1 for an income above the threshold and 0 otherwise.

    Raises:
        BayesreconError: the folder or state does not exist, a file or column is missing, values are missing or not
            numeric, or no record is left.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> head = ",".join([*FEATURES, INCOME, WEIGHT])
    >>> rows = ["30,1,21,1,10,6,0,40,1,1,60000,9", "12,1,9,5,10,6,2,40,2,1,60000,9"]
    >>> _ = (folder / "psam_p06.csv").write_text("\\n".join([head, *rows]))
    >>> acs_income(folder).y.tolist()
    [1]
    """
    root = checked_folder(folder)
    selected = [states] if isinstance(states, str) else list(states)
    for state in selected:
        if state not in STATES:
            raise BayesreconError(f"there is no state {state!r}{near(state, STATES)}; use two letters, such as CA")
    if not selected or len(set(selected)) < len(selected):
        raise BayesreconError(f"states={selected}: expected one or several different states")
    return joined([_state(root, state, threshold, year) for state in selected])


def _state(folder: Path, state: str, threshold: float | None, year: int) -> LabelledData:
    name = f"psam_p{STATES[state]}.csv"
    folders, archive = [folder / str(year) / "1-Year", folder], f"csv_p{state.lower()}.zip"
    hint = f"; nor {archive}"
    with opened(folders, [name], "persons of the survey", archives=[archive], hint=hint) as (path, stream):
        rows = _adults(path, stream)
    if not len(rows):
        raise BayesreconError(f"{path}: nobody above 16 has an income and hours of work")
    income = rows[:, len(FEATURES)]
    y = income if threshold is None else (income > threshold).astype(np.int64)
    names = () if threshold is None else (f"at most {threshold:,.0f}", f"above {threshold:,.0f}")
    return LabelledData("ACS income", rows[:, : len(FEATURES)].astype(np.float32), y, names, FEATURES)


def _adults(path: Path, stream: IO[bytes] | BoundedStream) -> np.ndarray:
    """Features and income of the working adults, `(N, 11)`."""
    import pandas as pd

    columns, blocks = [*FEATURES, INCOME, WEIGHT], []
    with pd.read_csv(stream, usecols=lambda column: column in columns, chunksize=_CHUNK, low_memory=False) as chunks:
        for chunk in chunks:
            if missing := [column for column in columns if column not in chunk]:
                other = " (RELSHIPP replaced it in 2019; use the survey of 2018)" if missing[0] == "RELP" else ""
                raise BayesreconError(f"{path}: column {missing[0]} is missing{other}")
            non_numeric = [column for column in columns if chunk[column].dtype.kind not in "iuf"]
            if non_numeric:
                raise BayesreconError(f"{path}: column {non_numeric[0]} has values that are not numbers")
            adult = (chunk.AGEP > 16) & (chunk[INCOME] > 100) & (chunk.WKHP > 0) & (chunk[WEIGHT] >= 1)
            rows = chunk.loc[adult, columns[:-1]].to_numpy(float)
            if (column := np.flatnonzero(~np.isfinite(rows).all(axis=0))).size:
                raise BayesreconError(f"{path}: an adult at work has no {columns[column[0]]}")
            blocks.append(rows)
            if sum(map(len, blocks)) > _MOST:
                raise BayesreconError(f"{path}: more than {_MOST:,} working adults; is this the file of one state?")
    return np.concatenate(blocks) if blocks else np.empty((0, len(columns) - 1))
