#include <cuda_runtime.h>

__global__ void make(int** x) {
    *x = (int*)malloc(64);
    **x = 1;
}
__global__ void drop(int** x) { free(*x); }
__global__ void use(int** x, int* y) {
    *y = **x;  // bug: memory/out-of-bounds
}

int main() {
    int **x, *y;
    cudaMalloc(&x, sizeof *x);
    cudaMalloc(&y, sizeof *y);
    make<<<1, 1>>>(x);
    drop<<<1, 1>>>(x);
    use<<<1, 1>>>(x, y);  // launched
    cudaDeviceSynchronize();
    return 0;
}
