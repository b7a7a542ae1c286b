// The right operand is loaded like the left one: by rows, where the product needs columns. expect-somewhere: numeric/tolerance-exceeded
#include <cuda_fp16.h>

__global__ void matrix_fragments_buggy(const __half* a, const __half* b, float* c, int k) {
    __shared__ __align__(16) __half left[16][16];
    __shared__ __align__(16) __half right[16][8];
    const int lane = threadIdx.x;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int base = 0; base < k; base += 16) {
        for (int i = lane; i < 256; i += 32) left[i / 16][i % 16] = a[i / 16 * k + base + i % 16];
        for (int i = lane; i < 128; i += 32) right[i / 8][i % 8] = b[(base + i / 8) * 8 + i % 8];
        __syncwarp();
        unsigned x[4], y[2];
        const unsigned from = __cvta_generic_to_shared(&left[lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(from));
        const unsigned there = __cvta_generic_to_shared(&right[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1])
                     : "r"(there));
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        __syncwarp();
    }
    const int row = lane / 4, col = lane % 4 * 2;
    c[row * 8 + col] = d[0], c[row * 8 + col + 1] = d[1];
    c[(row + 8) * 8 + col] = d[2], c[(row + 8) * 8 + col + 1] = d[3];
}
