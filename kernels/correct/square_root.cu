// Integer square roots by Newton's method: a loop with two exits. clean
__global__ void square_root(const long long* x, long long* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long v = x[i];
    long long root = v;
    while (root > 1) {
        const long long next = (root + v / root) / 2;
        if (next >= root) break;
        root = next;
    }
    y[i] = root;
}
