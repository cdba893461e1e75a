"""Where releases come from: NUTS, posteriordb, ArviZ, CmdStan, archives of draws, trained parameters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
