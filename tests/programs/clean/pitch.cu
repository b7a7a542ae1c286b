#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void transpose(const float* x, size_t pitch, float* y, size_t out, int w, int h) {
    int i = threadIdx.x, j = threadIdx.y;
    if (i < w && j < h) *((float*)((char*)y + i * out) + j) = *((const float*)((const char*)x + j * pitch) + i);
}

int main() {
    const int w = 5, h = 7;
    float in[h][w], out[w][h], *x, *y;
    size_t pitch, pitch_out;
    for (int j = 0; j < h; j++)
        for (int i = 0; i < w; i++) in[j][i] = 10 * j + i;
    cudaMallocPitch(&x, &pitch, w * sizeof(float), h);
    cudaMallocPitch(&y, &pitch_out, h * sizeof(float), w);
    cudaMemcpy2D(x, pitch, in, w * sizeof(float), w * sizeof(float), h, cudaMemcpyHostToDevice);
    cudaMemset2D(y, pitch_out, 0, h * sizeof(float), w);
    transpose<<<1, dim3(8, 8)>>>(x, pitch, y, pitch_out, w, h);
    cudaMemcpy2D(out, h * sizeof(float), y, pitch_out, h * sizeof(float), w, cudaMemcpyDeviceToHost);
    PASS(out[4][6] == 64 && out[0][3] == 30);
}
