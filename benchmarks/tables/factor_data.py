"""Public data with factors: those of R that textbooks print, of statsmodels and of scikit-learn."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Case:
    """A regression of a textbook.

    Attributes:
        name: of the data and the regression.
        kind: "ols", "logit" or "poisson".
        formula: of the fit.
        data: its records.
        factors: names of the factors in it.
        known: what an attacker is told besides the table.
    """

    name: str
    kind: str
    formula: str
    data: pd.DataFrame
    factors: tuple[str, ...]
    known: dict[str, Any]


def numbers(text: str) -> list[float]:
    return [float(v) for v in text.split()]


def plant_growth() -> pd.DataFrame:
    weight = numbers(
        "4.17 5.58 5.18 6.11 4.50 4.61 5.17 4.53 5.33 5.14 4.81 4.17 4.41 3.59 5.87 3.83 6.03 4.89 4.32 4.69 "
        "6.31 5.12 5.54 5.50 5.37 5.29 4.92 6.15 5.80 5.26"
    )
    return pd.DataFrame({"weight": weight, "group": np.repeat(["ctrl", "trt1", "trt2"], 10)})


def insect_sprays() -> pd.DataFrame:
    count = numbers(
        "10 7 20 14 14 12 10 23 17 20 14 13 11 17 21 11 16 14 17 17 19 21 7 13 0 1 7 2 3 1 2 1 3 0 1 4 "
        "3 5 12 6 4 3 5 5 5 5 2 4 3 5 3 5 3 6 1 1 3 2 6 4 11 9 15 22 15 16 13 10 26 26 24 13"
    )
    return pd.DataFrame({"count": count, "spray": np.repeat(list("ABCDEF"), 12)})


def warpbreaks() -> pd.DataFrame:
    breaks = numbers(
        "26 30 54 25 70 52 51 26 67 18 21 29 17 12 18 35 30 36 36 21 24 18 10 43 28 15 26 "
        "27 14 29 19 29 31 41 20 44 42 26 19 16 39 28 21 39 29 20 21 24 17 13 15 15 16 28"
    )
    tension = np.tile(np.repeat(list("LMH"), 9), 2)
    return pd.DataFrame({"breaks": breaks, "wool": np.repeat(["A", "B"], 27), "tension": tension})


def sleep() -> pd.DataFrame:
    extra = numbers("0.7 -1.6 -0.2 -1.2 -0.1 3.4 3.7 0.8 0.0 2.0 1.9 0.8 1.1 0.1 -0.1 4.4 5.5 1.6 4.6 3.4")
    return pd.DataFrame({"extra": extra, "group": np.repeat(["1", "2"], 10)})


def chick_weights() -> pd.DataFrame:
    feeds = {
        "casein": "368 390 379 260 404 318 352 359 216 222 283 332",
        "horsebean": "179 160 136 227 217 168 108 124 143 140",
        "linseed": "309 229 181 141 260 203 148 169 213 257 244 271",
        "meatmeal": "325 257 303 315 380 153 263 242 206 344 258",
        "soybean": "243 230 248 327 329 250 193 271 316 267 199 171 158 248",
        "sunflower": "423 340 392 339 341 226 320 295 334 322 297 318",
    }
    rows = [(feed, weight) for feed, text in feeds.items() for weight in numbers(text)]
    return pd.DataFrame(rows, columns=["feed", "weight"])


def tooth_growth() -> pd.DataFrame:
    length = numbers(
        "4.2 11.5 7.3 5.8 6.4 10 11.2 11.2 5.2 7 16.5 16.5 15.2 17.3 22.5 17.3 13.6 14.5 18.8 15.5 "
        "23.6 18.5 33.9 25.5 26.4 32.5 26.7 21.5 23.3 29.5 15.2 21.5 17.6 9.7 14.5 10 8.2 9.4 16.5 9.7 "
        "19.7 23.3 23.6 26.4 20 25.2 25.8 21.2 14.5 27.3 25.5 26.4 22.4 24.5 24.8 30.9 26.4 27.3 29.4 23"
    )
    dose = np.tile(np.repeat(["0.5", "1", "2"], 10), 2)
    return pd.DataFrame({"len": length, "supp": np.repeat(["VC", "OJ"], 30), "dose": dose})


def admissions() -> pd.DataFrame:
    """UCBAdmissions: admitted and rejected men and women by department."""
    counts = {
        "A": (512, 313, 89, 19),
        "B": (353, 207, 17, 8),
        "C": (120, 205, 202, 391),
        "D": (138, 279, 131, 244),
        "E": (53, 138, 94, 299),
        "F": (22, 351, 24, 317),
    }
    cells = [("Male", 1), ("Male", 0), ("Female", 1), ("Female", 0)]
    rows = [(d, g, a) for d, found in counts.items() for (g, a), n in zip(cells, found, strict=True) for _ in range(n)]
    return pd.DataFrame(rows, columns=["dept", "gender", "admit"])


def cases() -> Iterator[Case]:
    """The regressions, those of R's data first."""
    import sklearn.datasets as sk
    import statsmodels.api as sm

    def of(name: str) -> pd.DataFrame:
        return getattr(sm.datasets, name).load_pandas().data

    def case(name, kind, formula, data, *factors, **known):
        return Case(name, kind, formula, data, factors, known)

    yield case("PlantGrowth", "ols", "weight ~ C(group)", plant_growth(), "group")
    yield case("InsectSprays", "ols", "count ~ C(spray)", insect_sprays(), "spray")
    yield case("InsectSprays, counts", "poisson", "count ~ C(spray)", insect_sprays(), "spray")
    yield case("chickwts", "ols", "weight ~ C(feed)", chick_weights(), "feed")
    yield case("sleep", "ols", "extra ~ C(group)", sleep(), "group")
    yield case("warpbreaks", "ols", "breaks ~ C(wool) * C(tension)", warpbreaks(), "wool", "tension")
    yield case("warpbreaks, counts", "poisson", "breaks ~ C(wool) * C(tension)", warpbreaks(), "wool", "tension")
    yield case("warpbreaks, additive", "ols", "breaks ~ C(wool) + C(tension)", warpbreaks(), "wool", "tension")
    yield case(
        "warpbreaks, additive, n known",
        "ols",
        "breaks ~ C(wool) + C(tension)",
        warpbreaks(),
        "wool",
        "tension",
        total=54,
    )
    yield case("ToothGrowth", "ols", "len ~ C(supp) * C(dose)", tooth_growth(), "supp", "dose")
    yield case("UCBAdmissions, gender", "logit", "admit ~ C(gender)", admissions(), "gender")
    yield case("UCBAdmissions", "logit", "admit ~ C(gender) * C(dept)", admissions(), "gender", "dept")
    yield case("UCBAdmissions, additive", "logit", "admit ~ C(gender) + C(dept)", admissions(), "gender", "dept")
    spector = of("spector").rename(columns=str.lower)
    spector["psi"] = spector.psi.astype(int)
    yield case("spector", "logit", "grade ~ C(psi)", spector, "psi")
    yield case("spector, covariates", "logit", "grade ~ C(psi) + gpa + tuce", spector, "psi")
    fair = of("fair").assign(any=lambda d: (d.affairs > 0).astype(int), rating=lambda d: d.rate_marriage.astype(int))
    yield case("fair", "logit", "any ~ C(rating)", fair, "rating")
    anes = of("anes96").assign(party=lambda d: d.PID.astype(int))
    yield case("anes96", "logit", "vote ~ C(party)", anes[anes.party.between(1, 5)], "party")
    rand = of("randhie").assign(health=lambda d: np.where(d.hlthp > 0, "poor", np.where(d.hlthf > 0, "fair", "good")))
    yield case("randhie", "poisson", "mdvis ~ C(health)", rand, "health")
    punished = of("cpunish").assign(south=lambda d: d.SOUTH.astype(int))
    yield case("cpunish", "poisson", "EXECUTIONS ~ C(south)", punished, "south")
    card = of("ccard").assign(owner=lambda d: d.OWNRENT.astype(int))
    yield case("ccard", "ols", "AVGEXP ~ C(owner)", card, "owner")
    mode = of("modechoice").assign(party=lambda d: d.psize.astype(int)).query("party <= 4 and mode == 1")
    yield case("modechoice", "ols", "hinc ~ C(party)", mode, "party")
    iris = sk.load_iris(as_frame=True).frame
    iris.columns = ["length", "width", "petal_length", "petal_width", "species"]
    yield case("iris", "ols", "length ~ C(species)", iris, "species")
    yield case("iris, covariate", "ols", "length ~ C(species) + petal_width", iris, "species")
    yield case("iris, slopes", "ols", "length ~ C(species) * petal_width", iris, "species")
    wine = sk.load_wine(as_frame=True).frame
    yield case("wine", "ols", "alcohol ~ C(target)", wine, "target")
    diabetes = sk.load_diabetes(as_frame=True).frame.assign(sex=lambda d: (d.sex > 0).astype(int))
    yield case("diabetes", "ols", "target ~ C(sex)", diabetes, "sex")
    cancer = sk.load_breast_cancer(as_frame=True).frame.rename(columns={"mean radius": "radius"})
    cancer["size"] = pd.cut(cancer.radius, [0, 10, 12, 14, 40], labels=list("abcd")).astype(str)
    yield case("breast cancer", "logit", "target ~ C(size)", cancer.query("size != 'd'"), "size")
