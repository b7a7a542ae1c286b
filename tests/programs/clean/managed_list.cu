#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

struct Node {
    int value;
    Node* next;
};

__global__ void sum(const Node* node, int* total) {
    *total = 0;
    for (; node; node = node->next) *total += node->value;
}

int main() {
    Node* first = nullptr;
    for (int i = 1; i <= 10; i++) {
        Node* node;
        cudaMallocManaged(&node, sizeof(Node));
        *node = {i, first};
        first = node;
    }
    int* total;
    cudaMallocManaged(&total, sizeof(int));
    sum<<<1, 1>>>(first, total);
    cudaDeviceSynchronize();
    PASS(*total == 55);
}
