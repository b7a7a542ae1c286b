// An indirect call of a function that is selected at run time. clean
typedef float (*Unary)(float);

__device__ __noinline__ float twice(float v) { return 2.0f * v; }
__device__ __noinline__ float less_one(float v) { return v - 1.0f; }
__device__ __noinline__ float square(float v) { return v * v; }

__device__ Unary table[3] = {twice, less_one, square};

__global__ void function_table(const float* x, const int* which, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[which[i]](x[i]);
}
