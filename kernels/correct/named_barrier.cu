// Two halves of a block, each with its own named barrier and number of iterations. clean
__device__ void half_barrier(int half) { asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory"); }

__global__ void named_barrier(const float* x, float* y, int n) {
    __shared__ float s[128];
    const int half = threadIdx.x / 64, t = threadIdx.x % 64;
    float* mine = s + 64 * half;
    float sum = 0.0f;
    const int rounds = half == 0 ? 1 : 3;
    for (int k = 0; k < rounds; ++k) {
        const int i = (64 * (k + half) + t) % n;
        mine[t] = x[i];
        half_barrier(half);
        sum += mine[63 - t];
        half_barrier(half);
    }
    y[threadIdx.x] = sum;
}
