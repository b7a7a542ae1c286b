// correct: the host knows how many elements it may use, which is an information at the copy
#include <cstdio>

#define PASS(ok) (std::printf("%s\n", (ok) ? "PASS" : "FAIL"), (ok) ? 0 : 1)

__global__ void compact(const int* x, int* kept, int* count, int n) {
    for (int i = 0; i < n; ++i)
        if (x[i] % 3 == 0) kept[(*count)++] = x[i];
}

int main() {
    int x[100], kept[100], count = 0;
    for (int i = 0; i < 100; ++i) x[i] = i;
    int *dx, *dkept, *dcount;
    cudaMalloc(&dx, sizeof x);
    cudaMalloc(&dkept, sizeof kept);
    cudaMalloc(&dcount, sizeof count);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemset(dcount, 0, sizeof count);
    compact<<<1, 1>>>(dx, dkept, dcount, 100);
    cudaMemcpy(&count, dcount, sizeof count, cudaMemcpyDeviceToHost);
    cudaMemcpy(kept, dkept, sizeof kept, cudaMemcpyDeviceToHost);
    cudaFree(dx);
    cudaFree(dkept);
    cudaFree(dcount);
    return PASS(count == 34 && kept[33] == 99);
}
