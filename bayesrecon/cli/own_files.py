"""Models and functions in a Python file of the user. The file is executed."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from bayesrecon.errors import BayesreconError, beside, first_line, near

_LISTED = 6  # names in a message


def load_object(
    spec: str, what: str, option: str = "--model", wanted: Callable[[object], bool] | None = None
) -> object:
    """The object at `file.py:name`. Without `:name`, the only object of the requested kind in the file.

    Args:
        spec: `file.py:name` or `file.py`.
        what: description of the object, for messages.
        option: option of the command line, for messages.
        wanted: function that says whether an object has the requested kind. If no object has it, the only function of
            the file is returned.
    """
    path, name = spec.rsplit(":", 1) if ":" in spec else (spec, None)
    label = f"{option} {spec}"
    if name == "" or not path:
        raise BayesreconError(f"{label}: name {what} as file.py:name")
    module = _executed(Path(path), label)
    if name is None:
        return _only(module, what, label, wanted)
    if not hasattr(module, name):
        candidates = [*_own_functions(module), *(_of_kind(module, wanted) if wanted else {})]
        raise BayesreconError(f"{label}: {path} has no model or function {name}{near(name, candidates)}")
    return getattr(module, name)


def _executed(file: Path, label: str) -> ModuleType:
    if not file.is_file():
        raise BayesreconError(f"{label}: {file}: no such file{beside(file)}")
    loader = importlib.util.spec_from_file_location(f"_bayesrecon_model_{file.stem}", file)
    if loader is None or loader.loader is None:
        raise BayesreconError(f"{label}: {file} is not a Python file")
    module = importlib.util.module_from_spec(loader)
    sys.modules[loader.name] = module
    try:
        loader.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BayesreconError(f"{label}: {file} cannot be imported: {first_line(error)}") from None
    return module


def _only(module: ModuleType, what: str, label: str, wanted: Callable[[object], bool] | None) -> object:
    """The only object of the requested kind, or else the only function."""
    objects = _of_kind(module, wanted) if wanted is not None else {}
    distinct = {id(value): value for value in objects.values()}  # one object may have two names
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    functions = {} if distinct else _own_functions(module)
    if len(functions) == 1:
        return next(iter(functions.values()))
    names = list(objects or functions)
    if not names:
        raise BayesreconError(f"{label}: the file does not define {what}")
    path = label.partition(" ")[2]
    listed = ", ".join(f"{path}:{name}" for name in names[:_LISTED])
    raise BayesreconError(f"{label}: there are several; name one, {listed}")


def _of_kind(module: ModuleType, wanted: Callable[[object], bool]) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_") and wanted(value)}


def _own_functions(module: ModuleType) -> dict[str, object]:
    """Public functions that the file itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
