// A function that times another one gets a kernel, and calls it as it would a function of the host: nothing is launched.
#include <cstdio>

__global__ void twice(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

template <class Kernel, class... Arguments>
void timed(Kernel kernel, Arguments... arguments) {
    kernel(arguments...);  // bug: api/failed-launch
}

int main() {
    float* x;
    cudaMalloc(&x, 1024);
    cudaMemset(x, 0, 1024);
    twice<<<1, 256>>>(x, 256);
    timed(twice, x, 256);
    cudaDeviceSynchronize();
}
