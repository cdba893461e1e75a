from .acs import acs_income as acs_income
from .cifar import cifar10 as cifar10
from .cifar import cifar100 as cifar100
from .data_files import fashion_mnist as fashion_mnist
from .data_files import mnist as mnist
from .drawings import omniglot as omniglot
from .faces import celeba as celeba
from .photographs import tiny_imagenet as tiny_imagenet
