// A constant with too few digits: within the rounding of half precision, but the sums are in fp32. expect-somewhere: numeric/tolerance-exceeded
#include <cuda_fp16.h>

__device__ unsigned pair(const __half* from) { return *reinterpret_cast<const unsigned*>(from); }

__global__ void head_scores_buggy(const __half* q, const __half* keys, float* c, int n) {
    const int group = threadIdx.x / 4, place = threadIdx.x % 4 * 2;
    const __half* left = q + (blockIdx.y * 16 + group) * 48 + place;
    const __half* right = keys + (blockIdx.x * 8 + group) * 48 + place;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 48; i += 16)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(pair(left + i)), "r"(pair(left + 8 * 48 + i)), "r"(pair(left + i + 8)),
              "r"(pair(left + 8 * 48 + i + 8)), "r"(pair(right + i)), "r"(pair(right + i + 8)));
    float* to = c + (blockIdx.y * 16 + group) * n + blockIdx.x * 8 + place;
    for (int i = 0; i < 4; ++i) to[i / 2 * 8 * n + i % 2] = d[i] * 0.1443f;
}
