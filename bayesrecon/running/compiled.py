"""Compiled programs kept on disk, so that the next process that asks the same need not compile them again.

JAX keeps them (its persistent compilation cache) and reads its settings from the environment when it is imported.
Nothing here imports it. Several processes may share a folder: entries are named by hashes of the programs, of the
versions and of the hardware. JAX does not write them atomically, but packs them with a checksum: one that another
process has not finished, or never will, is compiled again, and never run.
"""

import hashlib
import os
import platform
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError
from bayesrecon.files import cache_folder, private_folder

SWITCH = "BAYESRECON_COMPILE_CACHE"
"""Environment variable: the command line keeps nothing where it is 0."""

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_EVERYTHING = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def compile_cache(folder: str | Path | None = None) -> Path:
    """Keep compiled programs on disk; the command line does so by itself.

    Call it before JAX is imported (`import bayesrecon` does not import it): it sets environment variables that JAX
    reads then, where they are not set. Later, JAX is told the folder and keeps what took as long to compile as its
    own settings say: by default a second, unless `jax.config` has `jax_persistent_cache_min_compile_time_secs` at 0.

    Args:
        folder: default JAX_COMPILATION_CACHE_DIR, or else one for the versions of bayesrecon and JAX and the kind of
            processor in the user's cache directory (`bayesrecon.posteriors.made.cache`). Who can write to it can make
            this process run anything.

    Returns:
        The folder.

    Raises:
        BayesreconError: a folder that cannot be made or written to, that belongs to somebody else, or that others can
            write to.

    >>> import jax
    >>> before = jax.config.jax_compilation_cache_dir
    >>> compile_cache("compiled").name
    'compiled'
    >>> jax.config.update("jax_compilation_cache_dir", before)  # and as it was
    """
    given = folder or os.environ.get(_FOLDER)
    path = Path(given).expanduser().absolute() if given else _own()
    try:
        _refuse_others(private_folder(path))
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise BayesreconError(
            f"cannot keep compiled programs in {path} ({error.strerror}); name a folder that can be written to"
        ) from error
    if "jax" in sys.modules:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.set_cache_dir(str(path))
        compilation_cache.reset_cache()  # it looks for a folder once only
    else:
        os.environ[_FOLDER] = str(path)
        for name, value in _EVERYTHING.items():
            os.environ.setdefault(name, value)
    return path


def keep_by_default() -> None:
    """What the command line does: nothing where that is switched off, already settled, or cannot be.

    Raises `BayesreconError` where the environment names a folder that others can write to.
    """
    if os.environ.get(SWITCH) == "0" or "jax" in sys.modules or _crashes():
        return
    # XLA logs an error for every entry that it reads on some processors, and goes on: it takes preferences of its
    # compiler for instructions that they lack (jax-ml/jax#38445). What really fails raises.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if _FOLDER in os.environ:
        if given := os.environ[_FOLDER]:
            _refuse_others(Path(given))
        return
    try:
        compile_cache()
    except BayesreconError:
        return
    _overlook_errors()


def _overlook_errors() -> None:
    """An entry that cannot be read or written costs a compilation, nothing else."""
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


@contextmanager
def kept() -> Iterator[None]:
    """Programs that are compiled in the block are kept as those of the command line are, where nothing was settled.

    Neither the user's settings nor BAYESRECON_COMPILE_CACHE=0 are overruled, and settings are as they were after it.
    """
    import jax

    config: Any = jax.config
    configured = _FOLDER in os.environ or config.jax_compilation_cache_dir
    if os.environ.get(SWITCH) == "0" or configured or _crashes():
        yield
        return
    path = _own()
    try:
        _refuse_others(private_folder(path))
    except (OSError, BayesreconError):
        yield
        return
    settings = {"jax_compilation_cache_dir": str(path), **{name.lower(): int(n) for name, n in _EVERYTHING.items()}}
    before = {name: getattr(config, name) for name in settings}
    with warnings.catch_warnings(), _unlogged():
        _overlook_errors()
        _settle(settings)
        try:
            yield
        finally:
            _settle(before)


def _settle(settings: dict[str, Any]) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # it looks for a folder once only


@contextmanager
def _unlogged() -> Iterator[None]:
    """What XLA logs of entries that it reads is not shown, as in `keep_by_default`, after JAX has been imported."""
    import jax

    config: Any = jax.config
    before = config.jax_logging_level
    levels = {"0": "INFO", "1": "WARNING", "2": "ERROR", "3": "CRITICAL"}  # by what XLA's own variable says
    config.update("jax_logging_level", "CRITICAL")
    try:
        yield
    finally:
        own = levels.get(os.environ.get("TF_CPP_MIN_LOG_LEVEL", ""), "WARNING")
        config.update("jax_logging_level", own if before in (None, "NOTSET") else before)
        config.update("jax_logging_level", before)  # which may leave XLA's as it is


def _refuse_others(path: Path) -> None:
    """Refuse a folder in which somebody else could lay a program that runs here.

    Raises `BayesreconError`.
    """
    if sys.platform == "win32" or not path.is_dir():
        return
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0):
        raise BayesreconError(
            f"compiled programs run as you, and {path} belongs to somebody else; name one of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BayesreconError(
            f"compiled programs run as you, and others can write to {path}; chmod go-w, or name another"
        )


def _own() -> Path:
    parts = [f"{name}-{found}" for name, found in _versions().items()]
    return cache_folder() / "compiled" / "_".join([*parts, sys.platform, platform.machine(), _processor()])


def _versions() -> dict[str, str]:
    return {"bayesrecon": __version__, "jax": version("jax"), "jaxlib": version("jaxlib")}


def _processor() -> str:
    """A name for what the processor can do: machines that share a home folder may differ, and so do their programs."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    return hashlib.sha256(features.encode()).hexdigest()[:8]


def _crashes() -> bool:
    """On macOS jaxlib below 0.10 overflows its stack on reading large programs."""
    return sys.platform == "darwin" and tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 10)
