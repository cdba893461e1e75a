"""Models: NumPyro programs, one family a file, and the adapter from a NumPyro program to a `Model`."""

from bayesrecon.models.adapter import from_numpyro as from_numpyro
from bayesrecon.models.entry import Shipped as Shipped
from bayesrecon.models.losses import from_loss as from_loss
from bayesrecon.models.registry import find as find
from bayesrecon.models.registry import load as load
from bayesrecon.models.registry import shipped as shipped
from bayesrecon.models.tempered import tempered as tempered
