#include <cuda_runtime.h>

__global__ void wait(int* x) {
    __shared__ unsigned long long barrier;
    unsigned address = unsigned(__cvta_generic_to_shared(&barrier)), done = 0;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 2;\n\tmbarrier.arrive.shared.b64 _, [%0];" ::"r"(address));
    __syncthreads();
    while (!done)
        asm volatile(  // bug: sync/hang
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(address) : "memory");
    x[threadIdx.x] = 1;
}

int main() {
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));
    wait<<<4, 64>>>(x);  // launched
    return 0;
}
