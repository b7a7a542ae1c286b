#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void add_one(cudaPitchedPtr p, int w, int h, int d) {
    int i = threadIdx.x, j = threadIdx.y, k = threadIdx.z;
    if (i >= w || j >= h || k >= d) return;
    int* row = (int*)((char*)p.ptr + (k * h + j) * p.pitch);
    row[i] += 1;
}

int main() {
    const int w = 3, h = 4, d = 2;
    int host[d][h][w];
    for (int i = 0; i < w * h * d; i++) (&host[0][0][0])[i] = i;
    cudaPitchedPtr p;
    cudaExtent extent = make_cudaExtent(w * sizeof(int), h, d);
    cudaMalloc3D(&p, extent);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(host, w * sizeof(int), w, h);
    copy.dstPtr = p;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    add_one<<<1, dim3(4, 4, 2)>>>(p, w, h, d);
    copy.dstPtr = copy.srcPtr;
    copy.srcPtr = p;
    copy.kind = cudaMemcpyDeviceToHost;
    cudaMemcpy3D(&copy);
    PASS(host[1][3][2] == 24 && host[0][0][0] == 1);
}
