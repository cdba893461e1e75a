from .acs import acs_income as acs_income
from .cifar import cifar10 as cifar10
from .idx import fashion_mnist as fashion_mnist
from .idx import mnist as mnist
from .labelled import LabelledData as LabelledData
