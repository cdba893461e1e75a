"""The linear regressions of posteriordb: those whose model is shipped, and those with a Stan program only."""

from bayesrecon.models.catalogue.linear import MODELS

BY_PROGRAM = (
    "earnings-earn_height",
    "kidiq_with_mom_work-kidscore_interaction_c",
    "kidiq_with_mom_work-kidscore_interaction_z",
    "kidiq_with_mom_work-kidscore_mom_work",
    "kilpisjarvi_mod-kilpisjarvi",
    "sblrc-blr",
    "sblri-blr",
)
LINEAR = (*(name for entry in MODELS for name in entry.posteriors), *BY_PROGRAM)
