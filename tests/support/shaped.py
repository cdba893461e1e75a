"""What annotations say of arrays and their shapes, checked at every call; other annotations are pyright's."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray

KERNELS = Path(__file__).parent.parent.parent / "bayesrecon" / "divergence"


def install() -> None:
    """Before the package is loaded.

    Compiled functions (`score`) could not be sent to other processes when they are wrapped. The hook of jaxtyping wraps
    every function, closures at every call of what makes them: those without arrays are left as they are.
    """
    jaxtyping.jaxtyped = _where_there_are_arrays
    jaxtyping.install_import_hook(
        [
            *(f"bayesrecon.divergence.{path.stem}" for path in sorted(KERNELS.glob("*.py")) if path.stem != "score"),
            "bayesrecon.estimation",
            "bayesrecon.attacks",
        ],
        "shaped.checked",
    )


def _where_there_are_arrays(*, typechecker: Any, jaxtyped: Callable = jaxtyping.jaxtyped) -> Callable:
    """`jaxtyping.jaxtyped`, which the hook calls by this name."""

    def decorated(wrapped: Any) -> Any:
        one = getattr(wrapped, "fget", None) or getattr(wrapped, "__func__", wrapped)
        hints = getattr(one.__init__ if inspect.isclass(one) else one, "__annotations__", {}).values()
        found = any(isinstance(hint, str) or _of_arrays(hint) for hint in hints)
        return jaxtyped(wrapped, typechecker=typechecker) if found else wrapped

    return decorated


def checked(function: Any, *args: Any, **kwargs: Any) -> Any:
    """As `beartype`, of the annotations that are about arrays.

    A protocol would be looked at by asking for its properties, some of which take long to compute.
    """
    own = getattr(function, "__annotations__", {})
    function.__annotations__ = {name: hint for name, hint in own.items() if _of_arrays(hint)}
    return beartype(function, *args, **kwargs)


def _of_arrays(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_of_arrays(inner) for inner in get_args(hint))
