"""Public data sets from files that the user has: a folder is named, and nothing is downloaded."""

from bayesrecon.datasets.acs import acs_income as acs_income
from bayesrecon.datasets.cifar import cifar10 as cifar10
from bayesrecon.datasets.idx import fashion_mnist as fashion_mnist
from bayesrecon.datasets.idx import mnist as mnist
from bayesrecon.datasets.labelled import LabelledData as LabelledData
