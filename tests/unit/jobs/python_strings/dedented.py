"""textwrap.dedent of an indented literal, with tabs."""

import textwrap

import cupy as cp


def build():
    code = textwrap.dedent("""\
        extern "C" __global__ void negate(const double* x, double* y, int n)
        {
        	int i = blockIdx.x * blockDim.x + threadIdx.x;
        	if (i > n)	return;
        	y[i] = -x[i];  // expect: memory/out-of-bounds
        }
        """)
    return cp.RawKernel(code, "negate")
