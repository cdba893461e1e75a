"""A cache of compiled programs on disk, so that later processes need not compile them again.

It is JAX's persistent compilation cache, whose settings JAX reads from the environment when it is imported. This module
does not import JAX. Several processes can share a folder, because entries are named by hashes of the program, the
versions and the hardware. JAX does not write entries atomically, but stores a checksum with them. So an incomplete
entry is compiled again and never run.
"""

import hashlib
import os
import platform
import stat
import sys
import tempfile
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError
from bayesrecon.files import cache_folder, private_folder

SWITCH = "BAYESRECON_COMPILE_CACHE"
"""Environment variable. If it is 0, the command line does not cache programs."""

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_CACHE_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def compile_cache(folder: str | Path | None = None) -> Path:
    """Cache compiled programs on disk. The command line does this by default.

    Call it before JAX is imported; `import bayesrecon` does not import JAX. It then sets environment variables for JAX,
    unless they are already set. If JAX is already imported, it sets JAX's folder only. JAX then caches programs that
    take at least `jax_persistent_cache_min_compile_time_secs` to compile, by default one second.

    Args:
        folder: the folder of the cache. The default is JAX_COMPILATION_CACHE_DIR, or else a folder in the user's cache
            directory that is named by the versions of bayesrecon and JAX and by the kind of processor. Anybody who can
            write to the folder can run code in this process.

    Returns:
        The folder.

    Raises:
        BayesreconError: the folder cannot be created or written to, belongs to another user, or is writable by others.

    >>> import jax
    >>> before = jax.config.jax_compilation_cache_dir
    >>> compile_cache("compiled").name
    'compiled'
    >>> jax.config.update("jax_compilation_cache_dir", before)  # restore it
    """
    chosen = folder or os.environ.get(_FOLDER)
    path = Path(chosen).expanduser().absolute() if chosen else _default_folder()
    try:
        _refuse_shared(private_folder(path))
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise BayesreconError(
            f"cannot cache compiled programs in {path} ({error.strerror}); name a folder that you can write to"
        ) from error
    if "jax" in sys.modules:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.set_cache_dir(str(path))
        compilation_cache.reset_cache()  # JAX reads the folder only once
    else:
        os.environ[_FOLDER] = str(path)
        for name, value in _CACHE_ALL.items():
            os.environ.setdefault(name, value)
    return path


def cache_by_default() -> None:
    """Cache programs on disk in later calls of this process, as the command line does.

    It does nothing if caching is switched off, already configured or impossible.
    """
    if os.environ.get(SWITCH) == "0" or "jax" in sys.modules or _crashes():
        return
    # On some processors XLA logs an error for every entry that it reads, and continues: it mistakes preferences of its
    # compiler for instructions that the processor lacks (jax-ml/jax#38445). Real failures raise exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if _FOLDER in os.environ:
        if folder := os.environ[_FOLDER]:
            _refuse_shared(Path(folder))
        return
    try:
        compile_cache()
    except BayesreconError:
        return
    _ignore_cache_warnings()


def _ignore_cache_warnings() -> None:
    """Ignore warnings about cache entries that cannot be read or written: they only cost a compilation."""
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


@contextmanager
def caching() -> Generator[None]:
    """Context manager in which programs are cached on disk, as the command line does.

    It neither overrides the user's settings nor BAYESRECON_COMPILE_CACHE=0. It restores all settings afterwards.
    """
    import jax

    configured = _FOLDER in os.environ or jax.config.values["jax_compilation_cache_dir"]
    if os.environ.get(SWITCH) == "0" or configured or _crashes():
        yield
        return
    path = _default_folder()
    try:
        _refuse_shared(private_folder(path))
    except (OSError, BayesreconError):
        yield
        return
    settings = {
        "jax_compilation_cache_dir": str(path),
        **{name.lower(): int(value) for name, value in _CACHE_ALL.items()},
    }
    before = {name: jax.config.values[name] for name in settings}
    with warnings.catch_warnings(), _without_logs():
        _ignore_cache_warnings()
        _configure(settings)
        try:
            yield
        finally:
            _configure(before)


def _configure(settings: Mapping[str, object]) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX reads the folder only once


@contextmanager
def _without_logs() -> Generator[None]:
    """Context manager that hides XLA's log messages about cache entries after JAX was imported."""
    import jax

    before = jax.config.values["jax_logging_level"]
    levels = {"0": "INFO", "1": "WARNING", "2": "ERROR", "3": "CRITICAL"}  # by values of TF_CPP_MIN_LOG_LEVEL
    jax.config.update("jax_logging_level", "CRITICAL")
    try:
        yield
    finally:
        xla_level = levels.get(os.environ.get("TF_CPP_MIN_LOG_LEVEL", ""), "WARNING")
        jax.config.update("jax_logging_level", xla_level if before in (None, "NOTSET") else before)
        jax.config.update("jax_logging_level", before)  # this may leave the level of XLA unchanged


def _refuse_shared(path: Path) -> None:
    """Check that no other user can put programs into the folder."""
    if sys.platform == "win32" or not path.is_dir():
        return
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0):
        raise BayesreconError(
            f"compiled programs run as you, and {path} belongs to another user; name a folder of your own"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BayesreconError(
            f"compiled programs run as you, and other users can write to {path}; chmod go-w, or name another folder"
        )


def _default_folder() -> Path:
    parts = [f"{name}-{number}" for name, number in _versions().items()]
    return cache_folder() / "compiled" / "_".join([*parts, sys.platform, platform.machine(), _processor()])


@cache
def _versions() -> dict[str, str]:
    return {"bayesrecon": __version__, "jax": version("jax"), "jaxlib": version("jaxlib")}


@cache
def _processor() -> str:
    """A name for the instruction set of the processor, since machines that share a home folder may differ in it."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    return hashlib.sha256(features.encode()).hexdigest()[:8]


def _crashes() -> bool:
    """Whether reading large programs would overflow the stack: on macOS with jaxlib below 0.10."""
    return sys.platform == "darwin" and tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 10)
