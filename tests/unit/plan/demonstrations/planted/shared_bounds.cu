// A tile with a border on one side, in an array that is too small for it.
#include <cstdio>

const int kTile = 16;

struct Image {
    int width;
    int height;
    float* pixels;
};

__global__ void blur(Image in, Image out) {
    __shared__ float tile[kTile][kTile];
    int x = blockIdx.x * kTile + threadIdx.x;
    int y = blockIdx.y * kTile + threadIdx.y;
    float centre = in.pixels[y * in.width + x];
    tile[threadIdx.y][threadIdx.x] = centre;
    if (threadIdx.y == kTile - 1) {
        tile[threadIdx.y + 1][threadIdx.x] = y + 1 < in.height ? in.pixels[(y + 1) * in.width + x] : centre;  // bug: memory/out-of-bounds
    }
    __syncthreads();
    out.pixels[y * out.width + x] = 0.5f * (centre + tile[threadIdx.y + 1][threadIdx.x]);
}

static Image make(int width, int height) {
    Image image;
    image.width = width;
    image.height = height;
    cudaMalloc(&image.pixels, sizeof(float) * width * height);
    cudaMemset(image.pixels, 0, sizeof(float) * width * height);
    return image;
}

int main() {
    Image in = make(64, 48);
    Image out = make(64, 48);
    dim3 block(kTile, kTile);
    dim3 grid(in.width / kTile, in.height / kTile);
    blur<<<grid, block>>>(in, out);
    cudaDeviceSynchronize();
    printf("done\n");
    cudaFree(in.pixels);
    cudaFree(out.pixels);
    return 0;
}
