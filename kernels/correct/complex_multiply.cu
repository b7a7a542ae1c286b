// Complex products: pairs of floats read as float2. clean
__global__ void complex_multiply(const float2* a, const float2* b, float2* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float2 u = a[i], v = b[i];
    c[i] = make_float2(u.x * v.x - u.y * v.y, u.x * v.y + u.y * v.x);
}
