"""What annotations say of arrays and their shapes, checked at every call; other annotations are pyright's."""

from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


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
