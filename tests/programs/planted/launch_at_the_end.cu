// The compiler would make the launch a jump, after which the function that launches is not on the stack.
#include <cuda_runtime.h>

__global__ void iota(int n, int* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] = i;  // bug: memory/out-of-bounds
}

__attribute__((noinline)) static void launch(int n, int* x) {
    iota<<<(n + 127) / 128, 128>>>(n, x);  // launched
}

__attribute__((noinline)) static cudaError_t allocate(int n, int** x) {
    return cudaMalloc(x, n * sizeof(int));  // allocated
}

int main() {
    int* x;
    if (allocate(1000, &x) != cudaSuccess) return 1;
    launch(1000, x);
    return cudaFree(x);
}
