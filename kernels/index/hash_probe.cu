// A slot by multiplicative hashing: the remainder of an unsigned product. clean
__global__ void hash_probe(const int* keys, const float* table, float* y, int n, int slots) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned slot = static_cast<unsigned>(keys[i]) * 2654435761u % slots;
    y[i] = table[slot];
}
