// The last steps of a sum in one warp, which waits for itself before each.
#include <cstdio>

#define WARP 32

__global__ void warp_total(const float* in, float* out) {
    __shared__ float parts[WARP];
    int lane = threadIdx.x;
    parts[lane] = in[blockIdx.x * WARP + lane];
    for (int step = WARP / 2; step > 0; step /= 2) {
        __syncwarp();
        if (lane < step) {
            parts[lane] += parts[lane + step];
        }
    }
    if (lane == 0) {
        out[blockIdx.x] = parts[0];
    }
}

int main() {
    const int blocks = 4;
    const size_t bytes = blocks * WARP * sizeof(float);
    float *in, *out;
    cudaMalloc(&in, bytes);
    cudaMalloc(&out, blocks * sizeof(float));
    float* host = new float[blocks * WARP];
    for (int i = 0; i < blocks * WARP; i++) {
        host[i] = 1.0f;
    }
    cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
    dim3 grid(blocks), block(WARP);
    warp_total<<<grid, block>>>(in, out);
    cudaDeviceSynchronize();
    cudaMemcpy(host, out, blocks * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\n", host[0]);
    delete[] host;
    cudaFree(in);
    cudaFree(out);
    return 0;
}
