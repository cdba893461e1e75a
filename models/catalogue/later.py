"""NumPyro, and distributions that are built on it, for shipped programs: half a second to load, spent when one of them
runs."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpyro as numpyro
    import numpyro.distributions as dist
    from numpyro.distributions import constraints as constraints

    from bayesrecon.models.catalogue import _laws as laws
else:

    class _Later(ModuleType):
        """A module that is imported when something of it is asked for."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self.__name__), name)

        def __reduce__(self) -> tuple[Any, ...]:
            """The module itself in another process."""
            return importlib.import_module, (self.__name__,)

    numpyro = _Later("numpyro")
    dist = _Later("numpyro.distributions")
    constraints = _Later("numpyro.distributions.constraints")
    laws = _Later("bayesrecon.models.catalogue._laws")

__all__ = ["constraints", "dist", "laws", "numpyro"]
