// Bit counting, reversal, funnel shifts, byte permutes and rotations. clean
__global__ void bit_tricks(const unsigned* x, unsigned* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned v = x[i];
    unsigned mixed = __popc(v) + 64u * __clz(v) + 4096u * __ffs(v);
    mixed ^= __brev(v);
    mixed ^= __funnelshift_l(v, v, 7);
    mixed ^= __byte_perm(v, 0u, 0x0123);
    mixed += v & -v;
    mixed ^= static_cast<unsigned>(static_cast<int>(v) >> 5);
    y[i] = mixed;
}
