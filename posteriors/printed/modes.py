"""A mode with its covariance as a table: one line a coordinate, as `sanitise` writes it."""

from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError, near
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.approximations import gaussian
from bayesrecon.posteriors.printed.summaries import read_frame
from bayesrecon.releases import Release


def mode_of_table(path: str | Path, model: Model) -> Release:
    """The mode of a posterior density in unconstrained coordinates, with the Jacobian, and its covariance.

    Args:
        path: path of a CSV file with a line for each coordinate: its name first, a column `mode`, and a column
            `cov(NAME)` for each of them, as `Sanitised.table()` has them; other columns are not read.

    >>> import bayesrecon, pandas as pd, tempfile
    >>> model, numbers = bayesrecon.models.load("kidscore_momiq"), np.diag([36.0, 0.0036, 0.0012])
    >>> columns = ["mode", *(f"cov({name})" for name in model.coordinates)]
    >>> table = pd.DataFrame(np.column_stack([[25.8, 0.61, 2.9], numbers]), list(model.coordinates), columns)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_csv(f"{folder}/mode.csv")
    ...     mode_of_table(f"{folder}/mode.csv", model).name
    'mode'
    """
    frame = read_frame(path, str(path))
    frame.index, frame.columns = ([str(x).strip() for x in axis] for axis in (frame.index, frame.columns))
    names = list(model.coordinates)
    columns = ["mode", *(f"cov({name})" for name in names)]
    for expected, actual, kind in ((names, list(frame.index), "line"), (columns, list(frame.columns), "column")):
        for name_ in expected:
            if name_ not in actual:
                raise BayesreconError(
                    f"{path}: a mode of model {model.name} has a {kind} {name_}, and there is none{near(name_, actual)}"
                )
    for name_ in frame.index:
        if name_ not in names:
            raise BayesreconError(f"{path} holds {name_}, which model {model.name} does not have{near(name_, names)}")
    try:
        numbers = np.array(frame.loc[names, columns], float)
    except ValueError as error:
        raise BayesreconError(f"{path}: {error}") from None
    covariance = numbers[:, 1:]
    return gaussian(model, numbers[:, 0], 0.5 * (covariance + covariance.T), jacobian=True, name=Path(path).stem)
