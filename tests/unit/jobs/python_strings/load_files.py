"""PyTorch's load: the code is in a file of its own."""

import os

from torch.utils.cpp_extension import load

HERE = os.path.dirname(os.path.abspath(__file__))
offset = load(name="offset", sources=["csrc/offset.cpp", os.path.join(HERE, "csrc", "offset.cu")])
