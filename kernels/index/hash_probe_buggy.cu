// The product overflows and is negative, and so is its remainder.
__global__ void hash_probe(const int* keys, const float* table, float* y, int n, int slots) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int slot = static_cast<int>(static_cast<unsigned>(keys[i]) * 2654435761u) % slots;
    y[i] = table[slot];  // expect: memory/out-of-bounds
}
