"""Files with copies of the data, and hostile names."""

import fits
import numpy as np
import xarray as xr
from kidscore import DATA, DRAWS

HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>'


def by_kind(found):
    return {f.kind: f for f in found}


def arviz_tree(**posterior_attributes):
    names = [f"{HOSTILE} Ölaf {i}" for i in range(fits.SIZE)]
    posterior = {
        "sigma": (("chain", "draw"), DRAWS["sigma"]),
        "beta": (("chain", "draw", "beta_dim_0"), DRAWS["beta"]),
        "x_used": (("chain", "draw", "child"), np.broadcast_to(DATA["mom_iq"], (2, 300, fits.SIZE)).copy()),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, {"child": names}, posterior_attributes),
            "observed_data": xr.Dataset({"kid_score": ("child", DATA["kid_score"])}, {"child": names}),
            "warmup_posterior": xr.Dataset({"sigma": (("chain", "draw"), DRAWS["sigma"][:, :10])}),
        }
    )
