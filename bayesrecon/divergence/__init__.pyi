from .definitions import embedding as embedding
from .definitions import kernel as kernel
from .definitions import metric as metric
from .definitions import phi as phi
from .theorem import fisher_divergence as fisher_divergence
from .theorem import mmd as mmd
