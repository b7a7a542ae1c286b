#include <cuda_runtime.h>
#include <cstdio>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

int main() {
    thrust::device_vector<int> x(100);
    thrust::sequence(x.begin(), x.end());
    PASS(thrust::reduce(x.begin(), x.end()) == 4950);
}
