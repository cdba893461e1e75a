"""Where releases come from: NUTS, posteriordb, ArviZ, CmdStan, archives of draws, trained parameters."""

from bayesrecon.moved import moved
from bayesrecon.posteriors.approximations import gaussian as gaussian
from bayesrecon.posteriors.densities import from_log_density as from_log_density
from bayesrecon.posteriors.door import release_of as release_of
from bayesrecon.posteriors.draws import Draws as Draws
from bayesrecon.posteriors.estimators import from_sklearn as from_sklearn
from bayesrecon.posteriors.estimators import save_trained as save_trained
from bayesrecon.posteriors.fitted import Run as Run
from bayesrecon.posteriors.fitted import fitted as fitted
from bayesrecon.posteriors.guides import from_guide as from_guide
from bayesrecon.posteriors.networks import train_network as train_network
from bayesrecon.posteriors.nuts import nuts as nuts
from bayesrecon.posteriors.nuts import save_draws as save_draws
from bayesrecon.posteriors.outputs import outputs as outputs
from bayesrecon.posteriors.reference import from_posteriordb as from_posteriordb
from bayesrecon.posteriors.regressions import from_statsmodels as from_statsmodels
from bayesrecon.posteriors.sources import dirac as dirac
from bayesrecon.posteriors.sources import from_arviz as from_arviz
from bayesrecon.posteriors.sources import from_cmdstan as from_cmdstan
from bayesrecon.posteriors.sources import from_draws as from_draws
from bayesrecon.posteriors.sources import from_npz as from_npz
from bayesrecon.posteriors.stored import from_file as from_file
from bayesrecon.posteriors.summaries import from_table as from_table
from bayesrecon.posteriors.training import Trained as Trained
from bayesrecon.posteriors.training import retrain_without as retrain_without
from bayesrecon.posteriors.training import train as train

__getattr__ = moved(__name__, {"from_density": "bayesrecon.posteriors.from_log_density"})
