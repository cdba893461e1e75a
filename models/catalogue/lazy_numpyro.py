"""NumPyro and distributions that are built on it, loaded when a shipped program first runs.

Loading takes half a second.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpyro as numpyro
    import numpyro.distributions as dist
    from numpyro.distributions import constraints as constraints

    from bayesrecon.models.catalogue import _extra_distributions as extra
else:

    class _LazyModule(ModuleType):
        """A module that is imported when one of its attributes is used."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self.__name__), name)

        def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
            """Pickle by name."""
            return importlib.import_module, (self.__name__,)

    numpyro = _LazyModule("numpyro")
    dist = _LazyModule("numpyro.distributions")
    constraints = _LazyModule("numpyro.distributions.constraints")
    extra = _LazyModule("bayesrecon.models.catalogue._extra_distributions")

__all__ = ["constraints", "dist", "extra", "numpyro"]
