// Softmax in half precision where possible: packed maxima, exponentials of differences, an fp32 sum. clean
#include <cuda_fp16.h>

__global__ void half_softmax(const __half* x, __half* y, int pairs) {
    const __half2* in = reinterpret_cast<const __half2*>(x) + blockIdx.x * pairs;
    __half2* out = reinterpret_cast<__half2*>(y) + blockIdx.x * pairs;
    __half2 top = __half2half2(__float2half(-INFINITY));
    for (int j = threadIdx.x; j < pairs; j += 32) top = __hmax2(top, in[j]);
    for (int d = 16; d > 0; d /= 2) top = __hmax2(top, __shfl_xor_sync(0xffffffffu, top, d));
    const float most = __half2float(__hmax(__low2half(top), __high2half(top)));
    float sum = 0.0f;
    for (int j = threadIdx.x; j < pairs; j += 32) {
        const float2 v = __half22float2(in[j]);
        sum += __expf(v.x - most) + __expf(v.y - most);
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    const float scale = __frcp_rn(sum);
    for (int j = threadIdx.x; j < pairs; j += 32) {
        const float2 v = __half22float2(in[j]);
        out[j] = __floats2half2_rn(__expf(v.x - most) * scale, __expf(v.y - most) * scale);
    }
}
