"""The theory as code: scores phi, kernel k, mean embedding mu, metric Sigma, and the theorem that joins them.

The Fisher divergence of two posteriors is half the squared MMD of the data behind them (`divergence.theorem`), and the
embedding of private data can be evaluated at any record from a release alone (`embedding`). Everything that recovers
data from a release solves for a measure with this embedding.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
