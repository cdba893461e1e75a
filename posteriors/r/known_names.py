"""Names that R's usual packages give to classes and to parts of fits, with what these parts are."""

from collections.abc import Mapping

from bayesrecon.posteriors.roles import CUT, ESTIMATE, LEAF, RECORD, STRUCTURE, TIMES, TOTAL

FITS = {
    "lm": "a linear model", "glm": "a generalised linear model", "aov": "an analysis of variance",
    "summary.lm": "the summary of a linear model", "summary.glm": "the summary of a generalised linear model",
    "nls": "a nonlinear least-squares fit", "summary.nls": "the summary of a nonlinear least-squares fit",
    "lmerMod": "a linear mixed model", "glmerMod": "a mixed model",
    "nlmerMod": "a mixed model", "lme": "a linear mixed model", "coxph": "a Cox regression",
    "survfit": "survival curves", "survreg": "a survival regression", "gam": "an additive model",
    "randomForest": "a random forest", "rpart": "a tree", "brmsfit": "a fit of brms", "stanfit": "a fit of Stan",
    "stanreg": "a fit of rstanarm", "mcmc": "draws of coda", "mcmc.list": "draws of coda",
    "draws_array": "draws", "draws_df": "draws", "draws_matrix": "draws", "draws_list": "draws", "draws_rvars": "draws",
    "CmdStanMCMC": "a fit of CmdStanR", "summary.merMod": "the summary of a mixed model",
    "prcomp": "principal components", "kmeans": "clusters", "princomp": "principal components",
    "htest": "a test", "density": "a density", "lda": "a discriminant analysis", "polr": "an ordinal regression",
    "loess": "a local regression", "smooth.spline": "a smoothing spline", "hclust": "a tree of clusters",
    "ecdf": "a distribution function", "gls": "a generalised least-squares fit",
}  # fmt: skip
"""Classes that are known; anything else is gone through by inventory alone."""

REASONS: Mapping[str, str] = {
    "nlmerMod": "its estimates maximise an integral over group effects, which is not a sum over records",
    "survreg": "estimates with censored times are not attacked by this version",
    "survfit": "the times on it are looked at as they are; its errors and limits follow from these",
    "rpart": "leaves and splits are looked at one by one; what their numbers give together is not",
    "randomForest": "each tree saw a random part of the records, some of them several times, and which is not in it",
    "prcomp": "means and covariances are listed as they are; they follow from no likelihood",
    "kmeans": "sizes, centres and sums of squares are listed as they are; they follow from no likelihood",
    "lme": "fits of nlme are not attacked by this version",
    "gls": "fits of nlme are not attacked by this version",
    "princomp": "means and covariances are listed as they are; they follow from no likelihood",
    "htest": "its means and its standard error are listed as they are; what they give together is not looked at",
    "density": "a smoothed sum over records whose terms overlap; its number of records and bandwidth are listed",
    "lda": "means and counts of its classes are listed as they are",
    "loess": "its kd-tree keeps values at single records, which are looked at as they are",
    "smooth.spline": "its knots are values of records, which are looked at as they are",
    "hclust": "its heights are distances between records, which are looked at as they are",
    "ecdf": "its steps are values of records, which are looked at as they are",
}
"""Why estimates of a class are not attacked as a table."""

RECORDS = {
    "residuals", "fitted.values", "fitted", "linear.predictors", "linear.predictor", "weights", "prior.weights",
    "working.weights", "y", "x", "model", "data", "frame", "hat", "leverages", "offset", "na.action", "where",
    "predicted", "votes", "oob.times", "proximity", "mu", "eta", "deviance.resid", "id", "cluster", "Xu",
    "localImportance", "groups", "inbag", "wtres", "sqrtXwt", "sqrtrwt", "std.dev", "resid", "Zt", "Xp",
}  # fmt: skip
DESIGN_PARTS = {"qr", "qraux", "effects"}
ESTIMATES = {
    "coefficients", "rank", "df.residual", "deviance", "aic", "null.deviance", "df.null", "iter", "R", "sigma", "df",
    "r.squared", "adj.r.squared", "fstatistic", "cov.unscaled", "cov.scaled", "dispersion", "var", "var2",
    "naive.var", "loglik", "score", "wald.test", "concordance", "edf", "edf1", "edf2", "Vp", "Ve", "Vc", "sp",
    "scale", "sig2", "reml.scale", "gcv.ubre", "scale.estimated", "beta", "theta", "u", "devcomp", "vcov", "se",
    "cptable", "rV", "db.drho", "variable.importance", "importance", "importanceSD", "mse", "rsq", "err.rate",
    "icoef", "full.sp", "rss", "F", "sumsq", "rotation", "sdev", "centers", "withinss", "tot.withinss", "totss",
    "betweenss", "outer.info", "db", "stan_summary", "ses", "covmat", "varFix", "coefficient", "logLik", "lower",
    "optinfo", "derivs", "assign", "pars", "R_hat", "edf.type", "hess", "Vsp", "m", "convInfo", "ngrps", "varcor",
    "msd", "sem", "c_msd", "quan", "c_quan", "ess", "rhat", "inits", "mean_pars", "mean_lp__", "AICtab", "summary",
    "gcv.ubre.dev", "mgcv.conv", "boundary", "tol", "delta", "b", "Lambdat", "optim", "control", "u0", "delu",
    "beta0", "delb", "Lind", "Gp", "REML",
}  # fmt: skip
BY_CLASS: Mapping[str, Mapping[str, str]] = {
    "coxph": {"means": TOTAL, "n": TOTAL, "nevent": TOTAL},
    "survfit": dict.fromkeys(
        ("time", "n.risk", "n.event", "n.censor", "surv", "std.err", "cumhaz", "std.chaz", "lower", "upper", "n"),
        TIMES,
    ),
    "lmerMod": dict.fromkeys(("VtV", "Vtr", "RX", "RXi", "RZX", "Utr", "rx"), TOTAL),
    "glmerMod": dict.fromkeys(("VtV", "Vtr", "RX", "RXi", "RZX", "Utr", "rx"), TOTAL),
    "gam": {"cmX": TOTAL, "var.summary": TOTAL, "shift": TOTAL},
    "randomForest": {
        "xbestsplit": CUT, "nodepred": LEAF, "leftDaughter": LEAF, "rightDaughter": LEAF, "treemap": LEAF,
        "nodestatus": LEAF, "bestvar": LEAF, "ndbigtree": LEAF, "nodeclass": LEAF, "confusion": TOTAL,
        "ncat": STRUCTURE,
    },
    "rpart": {"frame": LEAF, "splits": CUT, "csplit": CUT},
    "stanreg": {"adjusted_scale": TOTAL},
    "stanfit": {"adjusted_scale": TOTAL},
    "summary.merMod": {"devcomp": TOTAL, "ngrps": TOTAL},
    "summary.nls": {"parameters": ESTIMATE},
    "htest": dict.fromkeys(("statistic", "parameter", "estimate", "stderr", "conf.int", "p.value"), TOTAL),
    "density": {"x": ESTIMATE, "y": ESTIMATE, "bw": TOTAL, "n": TOTAL},
    "lda": dict.fromkeys(("counts", "prior", "means", "scaling", "svd", "N"), TOTAL),
    "princomp": {**dict.fromkeys(("center", "scale", "loadings", "sdev", "n.obs"), TOTAL), "scores": RECORD},
    "hclust": dict.fromkeys(("merge", "height", "order"), RECORD),
    "loess": {
        **dict.fromkeys(("fitted", "residuals", "x", "y", "xi", "vval"), RECORD), "n": TOTAL, "one.delta": TOTAL,
    },
    "smooth.spline": {"knot": RECORD},
    "kmeans": dict.fromkeys(("size", "centers", "withinss", "tot.withinss", "totss", "betweenss"), TOTAL),
    "prcomp": {**dict.fromkeys(("center", "scale", "rotation", "sdev"), TOTAL), "x": RECORD},
}  # fmt: skip
