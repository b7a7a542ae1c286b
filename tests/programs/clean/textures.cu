#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

// A CUDA array in three dimensions, pitched memory with linear filtering, linear memory, and a surface.
const int W = 20, H = 12, D = 3;

__global__ void mix(cudaTextureObject_t volume, cudaTextureObject_t pitched, cudaTextureObject_t table,
                    cudaSurfaceObject_t target) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float sum = tex1Dfetch<float>(table, x);
    for (int z = 0; z < D; z++) sum += tex3D<float>(volume, x + 0.5f, y + 0.5f, z + 0.5f);
    // Halfway between two bytes, of which both are clamped at the right edge.
    sum += 255 * tex2D<float>(pitched, (x + 1.0f) / W, (y + 0.5f) / H);
    surf2Dwrite(sum, target, x * sizeof(float), y);
}

int main() {
    static float values[D * H * W], line[W], back[H * W];
    static unsigned char bytes[H * W];
    for (int i = 0; i < D * H * W; i++) values[i] = i;
    for (int i = 0; i < W; i++) line[i] = 1000 * i;
    for (int i = 0; i < H * W; i++) bytes[i] = i % W * 4;
    cudaChannelFormatDesc reals = cudaCreateChannelDesc<float>();

    cudaArray_t volume, target;
    cudaMalloc3DArray(&volume, &reals, make_cudaExtent(W, H, D));
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(values, W * sizeof(float), W, H);
    copy.dstArray = volume;
    copy.extent = make_cudaExtent(W, H, D);
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    cudaMallocArray(&target, &reals, W, H, cudaArraySurfaceLoadStore);

    unsigned char* pitched;
    size_t pitch;
    cudaMallocPitch(&pitched, &pitch, W, H);
    cudaMemcpy2D(pitched, pitch, bytes, W, W, H, cudaMemcpyHostToDevice);
    float* table;
    cudaMalloc(&table, sizeof line);
    cudaMemcpy(table, line, sizeof line, cudaMemcpyHostToDevice);

    cudaTextureObject_t objects[3];
    cudaSurfaceObject_t surface, refused;
    cudaResourceDesc resource{};
    cudaTextureDesc texture{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = volume;
    bool right = cudaCreateSurfaceObject(&refused, &resource) == cudaErrorInvalidValue;
    for (auto& mode : texture.addressMode) mode = cudaAddressModeClamp;
    right = right && !cudaCreateTextureObject(&objects[0], &resource, &texture, nullptr);
    resource.res.array.array = target;
    right = right && !cudaCreateSurfaceObject(&surface, &resource);
    cudaResourceDesc rows{};
    rows.resType = cudaResourceTypePitch2D;
    rows.res.pitch2D = {pitched, cudaCreateChannelDesc<unsigned char>(), size_t(W), size_t(H), pitch};
    texture.readMode = cudaReadModeNormalizedFloat;
    texture.normalizedCoords = 1;
    texture.filterMode = cudaFilterModeLinear;
    right = right && !cudaCreateTextureObject(&objects[1], &rows, &texture, nullptr);
    cudaResourceDesc linear{};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear = {table, reals, sizeof line};
    cudaTextureDesc plain{};
    right = right && !cudaCreateTextureObject(&objects[2], &linear, &plain, nullptr);

    mix<<<dim3(2, 2), dim3(16, 8)>>>(objects[0], objects[1], objects[2], surface);
    cudaMemcpy2DFromArray(back, W * sizeof(float), target, 0, 0, W * sizeof(float), H, cudaMemcpyDeviceToHost);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float want = 1000 * x + (x + 1 < W ? x * 4 + 2 : x * 4);
            for (int z = 0; z < D; z++) want += (z * H + y) * W + x;
            float difference = back[y * W + x] - want;
            right = right && difference < 0.1f && difference > -0.1f;
        }
    for (auto one : objects) cudaDestroyTextureObject(one);
    cudaDestroySurfaceObject(surface);
    cudaFreeArray(volume);
    cudaFreeArray(target);
    right = right && cudaGetLastError() == cudaErrorInvalidValue;
    PASS(right);
}
