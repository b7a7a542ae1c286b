#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    int side;
    __device__ Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
};

__global__ void make(Shape** shapes) { shapes[threadIdx.x] = new Square(threadIdx.x); }
__global__ void measure(Shape** shapes, int* areas) { areas[threadIdx.x] = shapes[threadIdx.x]->area(); }
__global__ void drop(Shape** shapes) { delete shapes[threadIdx.x]; }

int main() {
    Shape** shapes;
    int *areas, found[32];
    cudaMalloc(&shapes, 32 * sizeof(Shape*));
    cudaMalloc(&areas, sizeof found);
    for (int round = 0; round < 2; round++) {
        make<<<1, 32>>>(shapes);
        measure<<<1, 32>>>(shapes, areas);
        drop<<<1, 32>>>(shapes);
    }
    cudaMemcpy(found, areas, sizeof found, cudaMemcpyDeviceToHost);
    PASS(found[31] == 31 * 31);
}
