// SwiGLU: the first half of a row is the gate. clean
#include <cuda_fp16.h>

template <typename T>
__global__ void swiglu(const T* x, T* y, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    const T* row = x + i / cols * 2 * cols;
    const float gate = static_cast<float>(row[i % cols]), up = static_cast<float>(row[cols + i % cols]);
    y[i] = static_cast<T>(gate / (1.0f + expf(-gate)) * up);
}
