// A printf on a path that is rarely taken. clean
#include <cstdio>

__global__ void prints(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i == 0) printf("n = %d, x[0] = %f\n", n, x[0]);
    y[i] = 3.0f * x[i];
}
