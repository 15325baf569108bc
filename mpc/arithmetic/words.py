"""Type of arrays of packed residues. Apart from the kernels, whose machine code takes long to load."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
