// Messages of 9 bytes, a kind and two numbers: the numbers are copied byte by byte.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));          \
            exit(EXIT_FAILURE);                                                      \
        }                                                                            \
    } while (0)

#define MESSAGE 9

__global__ void unpack(const unsigned char* bytes, float* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const unsigned char* message = bytes + MESSAGE * i;
        float first;
        memcpy(&first, message + 1, sizeof(first));
        out[i] = message[0] == 0 ? first : -first;
    }
}

int main() {
    const int count = 200;
    const int threads = 64;
    unsigned char* bytes = nullptr;
    float* out = nullptr;
    CHECK(cudaMalloc(&bytes, count * MESSAGE));
    CHECK(cudaMalloc(&out, count * sizeof(float)));
    CHECK(cudaMemset(bytes, 0, count * MESSAGE));
    unpack<<<(count + threads - 1) / threads, threads>>>(bytes, out, count);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(bytes));
    CHECK(cudaFree(out));
    return 0;
}
