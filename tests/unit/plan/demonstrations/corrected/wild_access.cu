// An address that the program has from an allocation.
#include <cstdio>

__device__ void mark(int* place) {
    *place = 42;
}

__global__ void leave_mark(int* out) {
    out[threadIdx.x] = 1;
    if (threadIdx.x == 0) {
        mark(out + blockDim.x);
    }
}

static void run(int threads) {
    int* out;
    cudaMalloc((void**)&out, (threads + 1) * sizeof(int));
    leave_mark<<<1, threads>>>(out);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(out);
}

int main() {
    constexpr int threads = 32;
    run(threads);
    return 0;
}
