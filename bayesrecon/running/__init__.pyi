from .compiled import compile_cache as compile_cache
from .engine import using as using
