from .deletion.one_step import OneStep as OneStep
from .deletion.prepared import Improvements as Improvements
from .matching.held_out import held_out_residual as held_out_residual
from .pseudodata.adam import Slicing as Slicing
