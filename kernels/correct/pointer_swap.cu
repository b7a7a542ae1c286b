// A scan that alternates between two shared arrays by swapping pointers. clean
__global__ void pointer_swap(const float* x, float* y, int n) {
    __shared__ float first[128], second[128];
    float *from = first, *into = second;
    const int t = threadIdx.x;
    from[t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        into[t] = t >= d ? from[t] + from[t - d] : from[t];
        __syncthreads();
        float* swap = from;
        from = into;
        into = swap;
    }
    if (t < n) y[t] = from[t];
}
