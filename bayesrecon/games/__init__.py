"""Games of deletions: what an outsider learns from a model before and after a record was deleted, over many rounds.

A game is data (`Game`), `play` plays it, and the result counts with exact intervals. Here attacks meet the truth: a
round knows what was deleted, and shows its adversaries what the game grants them.
"""

from bayesrecon.games.adversaries.exm import Exm as Exm
from bayesrecon.games.adversaries.ins import Ins as Ins
from bayesrecon.games.adversaries.likelihood import Likelihood as Likelihood
from bayesrecon.games.adversaries.reconstructed import Reconstructed as Reconstructed
from bayesrecon.games.adversaries.reduction import Reduction as Reduction
from bayesrecon.games.adversaries.white_box import WhiteBox as WhiteBox
from bayesrecon.games.adversary import Adversary as Adversary
from bayesrecon.games.adversary import named_adversaries as named_adversaries
from bayesrecon.games.adversary import named_adversary as named_adversary
from bayesrecon.games.choosing import Candidates as Candidates
from bayesrecon.games.choosing import Outlying as Outlying
from bayesrecon.games.choosing import named_choice as named_choice
from bayesrecon.games.data import Law as Law
from bayesrecon.games.data import Records as Records
from bayesrecon.games.data import Table as Table
from bayesrecon.games.data import table as table
from bayesrecon.games.inference import Game as Game
from bayesrecon.games.learner import Functions as Functions
from bayesrecon.games.learner import Learner as Learner
from bayesrecon.games.learner import ScikitLearner as ScikitLearner
from bayesrecon.games.learner import as_learner as as_learner
from bayesrecon.games.learners.least_squares import LeastSquares as LeastSquares
from bayesrecon.games.learners.logistic import Logistic as Logistic
from bayesrecon.games.learners.neighbours import Neighbours as Neighbours
from bayesrecon.games.learners.objective_perturbation import ObjectivePerturbation as ObjectivePerturbation
from bayesrecon.games.learners.output_perturbation import OutputPerturbation as OutputPerturbation
from bayesrecon.games.learners.posterior_draw import PosteriorDraw as PosteriorDraw
from bayesrecon.games.mechanism import Retrain as Retrain
from bayesrecon.games.members.lira import LiRA as LiRA
from bayesrecon.games.members.shokri import Shokri as Shokri
from bayesrecon.games.members.yeom import Yeom as Yeom
from bayesrecon.games.membership import Membership as Membership
from bayesrecon.games.named import load as load
from bayesrecon.games.named import named_learner as named_learner
from bayesrecon.games.named import named_learners as named_learners
from bayesrecon.games.named import shipped as shipped
from bayesrecon.games.playing import GameError as GameError
from bayesrecon.games.playing import Playable as Playable
from bayesrecon.games.playing import play as play
from bayesrecon.games.reconstruction import ReconstructionGame as ReconstructionGame
from bayesrecon.games.reconstructor import Guess as Guess
from bayesrecon.games.reconstructor import Reconstructor as Reconstructor
from bayesrecon.games.reconstructors.instance import DeletedInstance as DeletedInstance
from bayesrecon.games.reconstructors.label import DeletedLabel as DeletedLabel
from bayesrecon.games.reconstructors.response import KnownInstance as KnownInstance
from bayesrecon.games.synthetic import LinearLaw as LinearLaw
from bayesrecon.games.synthetic import TwoNormals as TwoNormals
from bayesrecon.games.view import Oracles as Oracles
from bayesrecon.games.view import View as View
from bayesrecon.moved import moved

__getattr__ = moved(__name__, {"Estimator": "bayesrecon.games.ScikitLearner"})
