"""Where releases come from: NUTS, posteriordb, ArviZ, CmdStan, archives of draws, trained parameters."""

import lazy_loader

from bayesrecon.moved import moved

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(__name__, {"from_density": "bayesrecon.posteriors.from_log_density"}, _loaded)
