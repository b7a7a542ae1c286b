// A breadth-first search whose threads store one level to the same vertex: a warning, which leaves the exit status.
#include <cuda_runtime.h>
#include <cstdio>

__global__ void expand(int* level, int depth, int* changed) {
    int v = threadIdx.x, u = v * 2 % 61;
    if (level[v] == depth && level[u] == -1) {
        level[u] = depth + 1;
        *changed = 1;
    }
}

int main() {
    int host[64], *level, *changed, again = 1, reached = 0;
    for (int i = 0; i < 64; i++) host[i] = i == 1 || i == 62 ? 0 : -1;
    cudaMalloc(&level, sizeof(host));
    cudaMalloc(&changed, sizeof(int));
    cudaMemcpy(level, host, sizeof(host), cudaMemcpyHostToDevice);
    for (int depth = 0; again; depth++) {
        cudaMemset(changed, 0, sizeof(int));
        expand<<<1, 64>>>(level, depth, changed);
        cudaMemcpy(&again, changed, sizeof(int), cudaMemcpyDeviceToHost);
    }
    cudaMemcpy(host, level, sizeof(host), cudaMemcpyDeviceToHost);
    for (int value : host) reached += value >= 0;
    puts(reached == 61 ? "PASS" : "FAIL");
    return 0;
}
