// Bitonic sort of up to 256 values per row; the row is padded with infinity. clean
__global__ void bitonic_sort(const float* x, float* y, int cols) {
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = t < cols ? x[blockIdx.x * cols + t] : INFINITY;
    for (int size = 2; size <= 256; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            const int partner = t ^ stride;
            if (partner > t) {
                const bool ascending = (t & size) == 0;
                if ((s[t] > s[partner]) == ascending) {
                    const float v = s[t];
                    s[t] = s[partner];
                    s[partner] = v;
                }
            }
        }
    }
    __syncthreads();
    if (t < cols) y[blockIdx.x * cols + t] = s[t];
}
