// Thread 0 adds what all threads of the block have stored in shared memory.
#include <cstdio>

constexpr int kThreads = 128;

__global__ void total(const int* in, int* out) {
    __shared__ int parts[kThreads];
    int t = threadIdx.x;
    parts[t] = in[t] * t;
    __syncthreads();
    if (t == 0) {
        int sum = 0;
        for (int i = 0; i < kThreads; ++i) {
            sum += parts[i];
        }
        *out = sum;
    }
}

int main() {
    int host[kThreads];
    for (int i = 0; i < kThreads; ++i) {
        host[i] = i % 7;
    }
    int *in, *out, result = 0;
    cudaMalloc(&in, sizeof(host));
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice);
    total<<<1, kThreads>>>(in, out);
    cudaMemcpy(&result, out, sizeof(result), cudaMemcpyDeviceToHost);
    printf("%d\n", result);
    cudaFree(in);
    cudaFree(out);
    return 0;
}
