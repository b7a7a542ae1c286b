// Local variables without a value on paths that do not use them, and a member that is never read.
#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void largest(const float* x, float* y, int cols) {
    bool found = false;
    float best;
    for (int c = 0; c < cols; c++) {
        float v = x[threadIdx.x * cols + c];
        if (v < 0) continue;
        if (!found || v > best) best = v;
        found = true;
    }
    y[threadIdx.x] = found ? best * 2 + 1 : -1;
}

__global__ void total_of_some(const float* x, float* y, int n) {
    float v;
    if (threadIdx.x < n) v = x[threadIdx.x] * 2;
    for (int step = 16; step; step /= 2) {
        float other = __shfl_down_sync(~0u, v, step);
        if (threadIdx.x + step < n) v += other;
    }
    if (threadIdx.x == 0) *y = v;
}

__global__ void centre(const float4* x, float4* y, int n) {
    float4 sum;
    sum.x = sum.y = sum.z = 0;
    for (int i = 0; i < n; i++) sum.x += x[i].x, sum.y += x[i].y, sum.z += x[i].z;
    y[threadIdx.x] = sum;
}

int main() {
    float *x, *y, host[128], first[2], total;
    for (int i = 0; i < 128; i++) host[i] = i < 4 ? -1 : i;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, 32 * sizeof(float4));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    largest<<<1, 32>>>(x, y, 4);
    cudaMemcpy(first, y, sizeof first, cudaMemcpyDeviceToHost);
    total_of_some<<<1, 32>>>(x + 4, y, 20);
    cudaMemcpy(&total, y, sizeof total, cudaMemcpyDeviceToHost);
    centre<<<1, 32>>>((float4*)x, (float4*)y, 32);
    PASS(cudaDeviceSynchronize() == cudaSuccess && first[0] == -1 && first[1] == 15 && total == 540);
}
