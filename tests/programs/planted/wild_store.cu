// A store whose index is wrong by far reaches another large array, which the kernel only reads.
__global__ void scale(const int* x, int* y, long far) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i == 77 ? i - far : i] = 2 * x[i];  // bug: memory/out-of-bounds
}

int main() {
    const int n = 2 << 20;
    int *x, *y;
    cudaMalloc(&x, n * sizeof(int));  // allocated
    cudaMalloc(&y, n * sizeof(int));
    cudaMemset(x, 0, n * sizeof(int));
    cudaMemset(y, 0, n * sizeof(int));
    scale<<<n / 256, 256>>>(x, y, y - x);  // launched
    cudaDeviceSynchronize();
}
