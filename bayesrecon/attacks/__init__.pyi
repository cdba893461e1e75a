from .deletion.deleted import Improvements as Improvements
from .deletion.one_step import OneStep as OneStep
from .pseudodata.adam import Slicing as Slicing
