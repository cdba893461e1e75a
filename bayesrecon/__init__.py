"""What a release gives away about the private data behind it."""

from pathlib import Path

import lazy_loader

from bayesrecon._version import __version__ as __version__

# In a bare checkout the sub-packages `models` and `posteriors` lie beside this folder.
_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file():
    __path__ = [*__path__, str(_root)]

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
