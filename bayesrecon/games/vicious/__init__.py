"""Vicious training: classifiers that perform their task and also hide the record in their outputs."""

from bayesrecon.games.vicious.detection import DetectionScores as DetectionScores
from bayesrecon.games.vicious.detection import detection_scores as detection_scores
from bayesrecon.games.vicious.detection import roc_area as roc_area
from bayesrecon.games.vicious.network import LinearClassifier as LinearClassifier
from bayesrecon.games.vicious.network import NetworkClassifier as NetworkClassifier
from bayesrecon.games.vicious.network import Vicious as Vicious
from bayesrecon.games.vicious.network import train as train
from bayesrecon.games.vicious.network import train_linear as train_linear
