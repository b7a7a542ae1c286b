// Correct only for launches of one block. expect-somewhere: numeric/unwritten-output
__global__ void single_block(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = 3.0f * x[i];
}
