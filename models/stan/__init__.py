"""Stan programs, parsed and evaluated with JAX."""

from bayesrecon.models.stan.program_data import stan_data as stan_data
from bayesrecon.models.stan.source import StanModel as StanModel
from bayesrecon.models.stan.source import from_stan as from_stan
from bayesrecon.models.stan.source import knowing as knowing
