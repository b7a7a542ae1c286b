#include <cuda_runtime.h>
#include <cstdio>
#include <vector>

__constant__ float weights[4];

struct Params {
    const float* x;
    float* y;
    int n;
    float scale;
};

__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

template <typename T, int BLOCK>
__global__ void row_sum(const T* x, T* sums, int cols) {
    __shared__ T partial[BLOCK];
    T sum = 0;
    for (int c = threadIdx.x; c < cols; c += BLOCK) sum += x[blockIdx.x * cols + c];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int step = BLOCK / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

__global__ void gather(const float* x, const int* index, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}

__global__ void csr_multiply(const int* starts, const int* columns, const float* values, const float* x, float* y,
                             int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; k++) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

__global__ void filter(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 3 >= n) return;
    float sum = 0;
    for (int k = 0; k < 4; k++) sum += weights[k] * x[i + k];
    y[i] = sum;
}

__global__ void scale_struct(Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.y[i] = p.scale * p.x[i];
}

__global__ void sum_tables(float** tables, float* y, int count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < count; k++) sum += tables[k][i];
    y[i] = sum;
}

__global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
    extern __shared__ unsigned local[];
    if (threadIdx.x < 64) local[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

template <typename T>
T* device(const std::vector<T>& host) {
    T* found;
    cudaMalloc(&found, host.size() * sizeof(T));
    cudaMemcpy(found, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return found;
}

int main() {
    const int n = 1000, rows = 37, cols = 100;
    std::vector<float> host(rows * cols);
    for (size_t i = 0; i < host.size(); i++) host[i] = 0.25f * (i % 97) - 3;
    float* x = device(host);
    float* y = device(std::vector<float>(n, 1.0f));
    saxpy<<<(n + 255) / 256, 256>>>(n, 2.0f, x, y);

    float* sums;
    cudaMalloc(&sums, rows * sizeof(float));
    row_sum<float, 128><<<rows, 128>>>(x, sums, cols);

    std::vector<int> order(n);
    for (int i = 0; i < n; i++) order[i] = (i * 7) % n;
    int* index = device(order);
    gather<<<(n + 127) / 128, 128>>>(x, index, y, n);

    std::vector<int> starts{0}, columns;
    std::vector<float> values;
    for (int row = 0; row < rows; row++) {
        for (int k = 0; k < row % 5; k++) columns.push_back((row * 3 + k) % cols), values.push_back(k + 1.0f);
        starts.push_back(columns.size());
    }
    csr_multiply<<<1, 64>>>(device(starts), device(columns), device(values), x, sums, rows);

    float w[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    cudaMemcpyToSymbol(weights, w, sizeof w);
    filter<<<(n + 255) / 256, 256>>>(device(std::vector<float>(n, 0.5f)), y, n);

    Params p{x, y, n, 0.5f};
    scale_struct<<<(n + 255) / 256, 256>>>(p);

    std::vector<float*> tables{device(std::vector<float>(n, 1.0f)), device(std::vector<float>(n, 2.0f))};
    sum_tables<<<(n + 255) / 256, 256>>>(device(tables), y, 2, n);

    std::vector<unsigned char> data(n);
    for (int i = 0; i < n; i++) data[i] = i % 64;
    unsigned* bins = device(std::vector<unsigned>(64, 0));
    histogram<<<(n + 255) / 256, 256, 64 * sizeof(unsigned)>>>(device(data), bins, n);

    unsigned counts[64];
    cudaMemcpy(counts, bins, sizeof counts, cudaMemcpyDeviceToHost);
    printf("%u\n", counts[0]);
    return cudaDeviceSynchronize() == cudaSuccess && counts[0] == 16 ? 0 : 1;
}
