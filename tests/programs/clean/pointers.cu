// Pointers in structs and in device memory, memory that lasts, several streams of launches, module constants.
#include <cstdio>
#include <cuda_runtime.h>

struct View {
    float* data;
    int size;
};

__global__ void fill(View view, float value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < view.size) view.data[i] = value + i;
}

__global__ void sum_rows(float* const* rows, int count, int size, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float sum = 0;
    for (int row = 0; row < count; row++) sum += rows[row][i];
    out[i] = sum;
}

int main() {
    const int size = 300, count = 3;
    float* rows[count];
    for (int row = 0; row < count; row++) {
        cudaMalloc(&rows[row], size * sizeof(float));
        fill<<<2, 256>>>(View{rows[row], size}, row * 100.0f);
    }
    float **table, *out, host[size];
    cudaMalloc(&table, sizeof rows);
    cudaMalloc(&out, size * sizeof(float));
    cudaMemcpy(table, rows, sizeof rows, cudaMemcpyHostToDevice);
    sum_rows<<<2, 256>>>(table, count, size, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g %g\n", host[0], host[299]);
    for (float* row : rows) cudaFree(row);
    cudaFree(table);
    cudaFree(out);
    return cudaGetLastError() == cudaSuccess && host[0] == 300 && host[299] == 1197 ? 0 : 5;
}
