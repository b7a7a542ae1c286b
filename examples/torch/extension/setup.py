"""Build with `gpuemu run setup.py -- build_ext --inplace`, or install with `gpuemu run -- pip install .`."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="segments",
    ext_modules=[CUDAExtension("segments", ["segments.cpp", "segments_kernel.cu"])],
    cmdclass={"build_ext": BuildExtension},
)
