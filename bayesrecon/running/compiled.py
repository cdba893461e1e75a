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
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError
from bayesrecon.files import cache_folder, private_folder

SWITCH = "BAYESRECON_COMPILE_CACHE"
"""Environment variable. If it is 0, the command line does not cache programs."""

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_EVERYTHING = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


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
    given = folder or os.environ.get(_FOLDER)
    path = Path(given).expanduser().absolute() if given else _own()
    try:
        _refuse_others(private_folder(path))
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
        for name, value in _EVERYTHING.items():
            os.environ.setdefault(name, value)
    return path


def keep_by_default() -> None:
    """Cache programs as the command line does.

    It does nothing if caching is switched off, already configured or not possible.

    Raises:
        BayesreconError: the environment names a folder that other users can write to.
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
    """Ignore warnings about cache entries that cannot be read or written: they only cost a compilation."""
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


@contextmanager
def kept() -> Iterator[None]:
    """Context manager in which programs are cached as by the command line.

    It does not override the user's settings or BAYESRECON_COMPILE_CACHE=0, and restores all settings afterwards.
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
    compilation_cache.reset_cache()  # JAX reads the folder only once


@contextmanager
def _unlogged() -> Iterator[None]:
    """Context manager that hides XLA's log messages about cache entries after JAX was imported."""
    import jax

    config: Any = jax.config
    before = config.jax_logging_level
    levels = {"0": "INFO", "1": "WARNING", "2": "ERROR", "3": "CRITICAL"}  # by the values of XLA's own variable
    config.update("jax_logging_level", "CRITICAL")
    try:
        yield
    finally:
        own = levels.get(os.environ.get("TF_CPP_MIN_LOG_LEVEL", ""), "WARNING")
        config.update("jax_logging_level", own if before in (None, "NOTSET") else before)
        config.update("jax_logging_level", before)  # this may leave XLA's own level unchanged


def _refuse_others(path: Path) -> None:
    """Check that no other user can put programs into the folder.

    Raises:
        BayesreconError: the folder belongs to another user or is writable by others.
    """
    if sys.platform == "win32" or not path.is_dir():
        return
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0):
        raise BayesreconError(
            f"compiled programs run as you, and {path} belongs to another user; name a folder of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BayesreconError(
            f"compiled programs run as you, and other users can write to {path}; chmod go-w, or name another folder"
        )


def _own() -> Path:
    parts = [f"{name}-{found}" for name, found in _versions().items()]
    return cache_folder() / "compiled" / "_".join([*parts, sys.platform, platform.machine(), _processor()])


def _versions() -> dict[str, str]:
    return {"bayesrecon": __version__, "jax": version("jax"), "jaxlib": version("jaxlib")}


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
