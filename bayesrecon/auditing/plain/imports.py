"""Imports that loading a file of saved objects would make: parts of models, code that runs, or unknown ones."""

import re
import sys
from typing import Literal

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.wording import places, to_drop
from bayesrecon.results.findings import Finding, NotRun

Import = Literal["model", "code", "unknown"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DATA = _names(
    """
    array abc collections copyreg copy_reg _codecs datetime decimal _decimal enum fractions itertools numbers
    pathlib random re string uuid weakref zoneinfo
    """
)
"""Modules of the standard library whose classes and functions only make values."""

_HARMLESS = {("types", "SimpleNamespace"), ("types", "MappingProxyType")}

_CODE = sys.stdlib_module_names - _DATA | _names(
    """
    posix nt imp cPickle commands popen2 distutils cloudpickle dill pip setuptools sympy IPython jax numpyro cupy
    keras tensorflow transformers huggingface_hub torch.hub torch.utils.cpp_extension torch.jit torch._inductor
    torch.distributed numpy.testing numpy.f2py numpy.distutils pandas.io pandas.core.computation pandas.eval
    scipy._lib._testutils sklearn.utils._testing sklearn.datasets joblib.memory joblib.parallel
    statsmodels.tools._testing
    """
)
"""Modules that start programs, open files or connections, create functions, or load further code."""

_DOES = _names(
    """
    system popen eval exec execfile compile __import__ open getattr setattr delattr globals locals vars input
    breakpoint exit quit loads load import_module run call check_call check_output spawnl spawnv fork execv
    execl kill remove unlink rmtree rename memmap fromfile load_module attrgetter methodcaller itemgetter apply
    map filter reduce partial genfromtxt loadtxt save savetxt savez read_pickle read_csv to_pickle runstring
    HDFStore ExcelFile ExcelWriter DataSource load_library urlopen download load_url load_state_dict_from_url
    __getattribute__ __globals__ __builtins__ __subclasses__ __class__ __dict__ __code__ modules _run_code
    run_module run_path
    """
)
"""Names of functions that act when they are called, in any module."""

_BUILTINS = _names(
    """
    object set frozenset list dict tuple slice bytes bytearray int float complex bool str range type NoneType
    Ellipsis NotImplemented reversed enumerate zip unicode long
    """
)

_LIBRARIES = _DATA | _names(
    """
    numpy scipy pandas sklearn statsmodels joblib torch torchvision xgboost lightgbm catboost lifelines patsy
    formulaic category_encoders imblearn skops xarray arviz arviz_base pymc pytensor dateutil pytz narwhals pyarrow
    interface_meta mlxtend hdbscan umap pygam linearmodels autograd sortedcontainers feature_engine emcee bilby
    cobaya zeus dynesty nautilus ultranest getdist astropy
    """
)

_FUNCTIONS = re.compile(
    r"_reconstruct|scalar|_frombuffer|dtype|ndarray|_unpickle_block|new_block|_new_Index|_new_DatetimeIndex|_new_PeriodIndex"
    r"|__pyx_unpickle_\w+|_reconstructor|__newobj__|__newobj_ex__|newObj|_rebuild_\w+|encode|__randomstate_ctor|_mareconstruct"
    r"|__bit_generator_ctor|__generator_ctor|_unpickle_timestamp|_timedelta_unpickle|ufunc|_ufunc_reconstruct|defaultdict"
    r"|deque|_restore_array|py_buffer|type_for_alias|array|_array_reconstructor|count|recarray|matrix|masked_array"
    r"|csr_\w+|csc_\w+|coo_\w+|lil_\w+|dok_\w+|dia_\w+|bsr_\w+|\w+_gen|\w+_frozen|interp1d|nan_euclidean_distances"
    r"|_unserialize|_create_parametrization|device|Size|__set_state__|float(16|32|64)|u?int(8|16|32|64)|bool_?|str_|object_"
    r"|get_interval_accessors|cKDTree|_\w+_scorer|set|frozenset|date|datetime|time|timedelta|timezone|_timezone|tzutc|utc|_UTC|partial"
    r"|_pickle_\w+|unpickle_\w+|_unpickle_\w+|_from_arrays|(complex|float)\d*|extension"
)


def kind_of_import(module: str, name: str, called: bool) -> Import:
    """Classify one import.

    >>> kind_of_import("os", "system", True), kind_of_import("sklearn.svm._classes", "SVC", True)
    ('code', 'model')
    >>> kind_of_import("mylib", "Model", True), kind_of_import("numpy", "random.os.system", True)
    ('unknown', 'code')
    """
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return "unknown"
    parts = name.split(".")
    if (module, name) == ("jax._src.array", "_reconstruct_array"):  # what it calls is named, too
        return "model"
    if module in ("builtins", "__builtin__"):
        return "model" if name in _BUILTINS else "code"
    roots = {".".join(module.split(".")[:k]) for k in range(1, module.count(".") + 2)} | {f"{module}.{parts[0]}"}
    if (module, name) in _HARMLESS:
        return "model"
    if roots & _CODE or set(parts) & (_DOES | _CODE - _LIBRARIES):
        return "code"
    if len(parts) > 1 or not roots & _LIBRARIES:
        return "unknown"
    if not called or name.lstrip("_")[:1].isupper() or _FUNCTIONS.fullmatch(name):
        return "model"
    return "unknown"


_LOADS = "nothing but the file, and somebody who loads it"
_NUMBERS = "do not load it; save numbers alone (.npz, .safetensors), or what skops writes"


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding on code that would run, and one on unknown imports."""
    if (saved := look.contents.saved) is None:
        return [], []
    kinds = {f"{module}.{name}": kind_of_import(module, name, called) for module, name, called in saved.names}
    runs = (*(imported for imported, kind in kinds.items() if kind == "code"), *saved.code)
    unknown = tuple(imported for imported, kind in kinds.items() if kind == "unknown")
    findings = []
    if runs:
        title = f"this file would run code: it names {places(runs, 3)}"
        summary = f"whoever loads it calls {places(runs)}; nothing of it was called here"
        findings.append(to_drop("code", "high", title, runs, summary, _LOADS, instead=_NUMBERS))
    if unknown:
        title = f"loading this file imports what is not known here: {places(unknown, 3)}"
        summary = f"{places(unknown)}: classes and functions of one's own, or code that runs"
        findings.append(to_drop("code", "low", title, unknown, summary, _LOADS, instead=_NUMBERS))
    return findings, []


CHANNEL = Channel("code in saved objects", find, 10)
