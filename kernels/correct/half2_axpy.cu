// a x + y in half precision, two elements at a time, with a scalar remainder. clean
#include <cuda_fp16.h>

__global__ void half2_axpy(const __half* x, const __half* y, __half* z, int n) {
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    const __half a = __float2half(0.75f);
    if (i + 1 < n) {
        const __half2 xs = *reinterpret_cast<const __half2*>(x + i), ys = *reinterpret_cast<const __half2*>(y + i);
        *reinterpret_cast<__half2*>(z + i) = __hfma2(__half2half2(a), xs, ys);
    } else if (i < n) {
        z[i] = __hfma(a, x[i], y[i]);
    }
}
