// Kernels with 1-based indices get addresses before their arrays: these are in no allocation, and written all the same.
#include <cstdio>
#include <vector>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

constexpr int N = 1 << 21;

__global__ void count_of(const int* y, int value, int* found) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N && y[i] == value) atomicAdd(found, 1);
}
__global__ void increment(int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (i <= N) y[i] += 1;
}

int main() {
    int *y, *found;
    cudaMalloc(&y, N * sizeof(int));
    cudaMalloc(&found, sizeof(int));
    cudaMemset(y, 0, N * sizeof(int));
    cudaMemset(found, 0, sizeof(int));
    count_of<<<N / 256, 256>>>(y, 3, found);
    for (int i = 0; i < 3; i++) increment<<<N / 256, 256>>>(y - 1);
    count_of<<<N / 256, 256>>>(y, 3, found);
    std::vector<int> values(N);
    int count = 0;
    cudaMemcpy(values.data(), y, N * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&count, found, sizeof count, cudaMemcpyDeviceToHost);
    bool right = count == N;
    for (int value : values) right &= value == 3;
    PASS(right);
}
