#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void square(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}

// A pinned buffer is filled again when the event of its last copy has ended; results are read after another event.
int main() {
    const int n = 5000, rounds = 4;
    float *staging, *out, *x, *y;
    cudaHostAlloc(&staging, n * sizeof(float), cudaHostAllocDefault);
    cudaMallocHost(&out, n * rounds * sizeof(float));
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaStream_t stream;
    cudaEvent_t copied, done;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
    cudaEventCreate(&done);
    for (int r = 0; r < rounds; r++) {
        if (r) cudaEventSynchronize(copied);
        for (int i = 0; i < n; i++) staging[i] = i % 100 + r;
        cudaMemcpyAsync(x, staging, n * sizeof(float), cudaMemcpyHostToDevice, stream);
        cudaEventRecord(copied, stream);
        square<<<20, 256, 0, stream>>>(x, y, n);
        cudaMemcpyAsync(out + r * n, y, n * sizeof(float), cudaMemcpyDeviceToHost, stream);
    }
    cudaEventRecord(done, stream);
    while (cudaEventQuery(done) == cudaErrorNotReady) {}
    bool right = true;
    for (int i = 0; i < n * rounds; i++) {
        float value = i % n % 100 + i / n;
        right = right && out[i] == value * value;
    }
    PASS(right);
}
