from bayesrecon import evaluate as evaluate
from bayesrecon import models as models
from bayesrecon import plots as plots
from bayesrecon import posteriors as posteriors
from bayesrecon.bounds import bound as bound
from bayesrecon.diagnosis import Diagnosis as Diagnosis
from bayesrecon.diagnosis import diagnose as diagnose
from bayesrecon.errors import BayesreconError as BayesreconError
from bayesrecon.gradient import Slicing as Slicing
from bayesrecon.informed import condition as condition
from bayesrecon.informed import missing_record as missing_record
from bayesrecon.landscape import witness as witness
from bayesrecon.planner import plan as plan
from bayesrecon.pseudodata import Reconstruction as Reconstruction
from bayesrecon.reconstruction import reconstruct as reconstruct
from bayesrecon.recovery import recover as recover
from bayesrecon.result import Recovery as Recovery
from bayesrecon.result import load_result as load_result
from bayesrecon.types import Deletion as Deletion
from bayesrecon.types import Model as Model
from bayesrecon.types import PseudoData as PseudoData
from bayesrecon.types import Release as Release
from bayesrecon.types import deletion as deletion

__version__: str
