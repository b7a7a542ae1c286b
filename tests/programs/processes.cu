// What a program may do besides kernels, by its argument.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

__global__ void add(int* x) { atomicAdd(x, 1); }
__global__ void spin(int* x) {
    while (*(volatile int*)x >= 0) ((volatile int*)x)[1]++;
}
__global__ void many(int* x) {
    size_t k = (blockIdx.x * 32 + threadIdx.x) & ((16 << 20) - 1);
    for (int i = 0; i < 100; i++) atomicAdd(x + k, i);
}
__global__ void rows(int* x) {
    int* row = x + (size_t(threadIdx.x) << 15);
    for (int i = 0; i < 1 << 15; i++) row[i] += i;
}
__global__ void unrolled(int* x) {
#pragma unroll
    for (int i = 0; i < 2000; i++) x[i] = x[7 * i % 2000] * x[i] + 2;
    while (((volatile int*)x)[2000] >= 0) ((volatile int*)x)[2001]++;
}
__global__ void say() {
    for (int i = 0; i < 1000000; i++) printf("%d\n", i);
}

static cudaError_t use() {
    int* x;
    if (cudaMalloc(&x, 4) != cudaSuccess) return cudaGetLastError();
    cudaMemset(x, 0, 4);
    add<<<1, 32>>>(x);
    return cudaDeviceSynchronize();
}

static void announce() {
    puts("ready");
    fflush(stdout);
}

int main(int, char** arguments) {
    std::string what = arguments[1];
    if (what == "fork-before") {
        pid_t child = fork();
        use();
        if (child) waitpid(child, nullptr, 0);
        return 0;
    }
    use();
    if (what == "fork-after" || what == "fork-host") {
        pid_t child = fork();
        if (!child) _exit(what == "fork-after" ? int(use()) : 3);
        int status;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (what == "daemon" && !fork())
        for (;;) pause();
    if (what == "crash") abort();
    if (what == "exit") {
        std::vector<std::thread> others;
        for (int i = 0; i < 3; i++) others.emplace_back([] { for (;;) use(); });
        use();
        exit(5);
    }
    if (what == "print") {
        std::vector<char> line(1 << 20, 'x');
        for (int i = 0; i < 1024; i++) fwrite(line.data(), 1, line.size(), stdout);
    }
    if (what == "malloc") {
        volatile char* memory = static_cast<char*>(malloc(64ull << 30));
        return memory ? 1 : 4;
    }
    void* big;
    size_t pitch;
    if (what == "cudaMalloc") return cudaMalloc(&big, 64ull << 30);
    if (what == "cudaMallocPitch") return cudaMallocPitch(&big, &pitch, size_t(-1), 2);
    int* x;
    for (int i = 0; i < 6 && what == "freed"; i++) {
        cudaMalloc(&x, 16 << 20);
        cudaMemset(x, 0, 16 << 20);
        rows<<<1, 128>>>(x);
        cudaFree(x);
    }
    if (what == "freed") return cudaDeviceSynchronize();
    cudaMalloc(&x, 64 << 20);
    cudaMemset(x, 0, 64 << 20);
    if (what == "launch" || what == "found") {
        int host, *y;
        cudaMalloc(&y, sizeof host);
        if (what == "found") cudaMemcpy(&host, y, sizeof host, cudaMemcpyDeviceToHost);
        announce();
        spin<<<1, 1>>>(x);
    }
    if (what == "translate") {
        announce();
        unrolled<<<1, 1>>>(x);
    }
    if (what == "blocks" || what == "long") {
        // Optimised code: the blocks of the second launch need no decision by Python.
        for (int i = 0; i < 3 && what == "blocks"; i++) many<<<1 << 12, 32>>>(x);
        announce();
        many<<<1 << 30, 32>>>(x);
    }
    if (what == "rows") rows<<<1, 512>>>(x);
    if (what == "say") {
        announce();
        say<<<1, 32>>>();
    }
    if (what == "copy") {
        std::vector<char> host(64 << 20);
        announce();
        for (;;) cudaMemcpy(host.data(), x, host.size(), cudaMemcpyDeviceToHost);
    }
    return 0;
}
