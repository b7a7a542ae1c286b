// The only work on the device are calls of cuBLAS: they are checked, although there is no launch.
#include <cublas_v2.h>

#include <cstdio>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

int main() {
    const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, alpha = 1, beta = 0;
    float c[4], *da, *db, *dc;
    cudaMalloc(&da, sizeof a);
    cudaMalloc(&db, sizeof b);
    cudaMalloc(&dc, sizeof c);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &alpha, da, 2, db, 2, &beta, dc, 2);
    cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
    bool right = c[0] == 23 && c[1] == 34 && c[2] == 31 && c[3] == 46;
    float sum = 0;
    cublasSgemv(handle, CUBLAS_OP_N, 2, 2, &alpha, da, 2, db, 1, &beta, dc, 1);
    cublasSasum(handle, 2, dc, 1, &sum);
    cublasDestroy(handle);
    PASS(right && sum == 57);
}
