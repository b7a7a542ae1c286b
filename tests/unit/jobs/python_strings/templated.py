"""string.Template."""

from string import Template

from pycuda.compiler import SourceModule

TEMPLATE = Template("""
#define FACTOR $factor
__global__ void total(const int* x, int* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[0] += FACTOR * x[i] + ${offset};  // expect: memory/global-race
}
""")
FACTOR = 1 << 4
module = SourceModule(TEMPLATE.substitute(factor=FACTOR, offset=1))
total = module.get_function("total")
