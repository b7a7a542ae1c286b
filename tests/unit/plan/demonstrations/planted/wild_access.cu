// An address that is a number: no allocation of the program is there.
#include <cstdio>

__device__ void mark() {
    *reinterpret_cast<int*>(0x87654320ull) = 42;  // bug: memory/out-of-bounds
}

__global__ void leave_mark(int* out) {
    out[threadIdx.x] = 1;
    if (threadIdx.x == 0) {
        mark();
    }
}

static void run(int threads) {
    int* out;
    cudaMalloc((void**)&out, threads * sizeof(int));
    leave_mark<<<1, threads>>>(out);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(out);
}

int main() {
    constexpr int threads = 32;
    run(threads);
    return 0;
}
