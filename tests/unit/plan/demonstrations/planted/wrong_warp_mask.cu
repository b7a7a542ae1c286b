// The upper half of the warp names the lower half: it takes part in an exchange that its mask leaves out.
#include <cstdio>

#define THREADS 64

__global__ void halves(const int* in, int* out) {
    int t = threadIdx.x;
    int lane = t % 32;
    int value = in[t];
    if (lane < 16) {
        value += __shfl_down_sync(0x0000ffff, value, 8, 16);
    } else {
        value -= __shfl_down_sync(0x0000ffff, value, 8, 16);  // bug: sync/missing-warp-mask
    }
    out[t] = value;
}

int main() {
    int host[THREADS];
    int *in, *out;
    for (int i = 0; i < THREADS; i++) host[i] = i;
    cudaMalloc(&in, THREADS * sizeof(int));
    cudaMalloc(&out, THREADS * sizeof(int));
    cudaMemcpy(in, host, THREADS * sizeof(int), cudaMemcpyHostToDevice);
    dim3 block;
    block.x = THREADS;
    halves<<<1, block>>>(in, out);
    cudaMemcpy(host, out, THREADS * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d\n", host[0]);
    cudaFree(in);
    cudaFree(out);
    return 0;
}
