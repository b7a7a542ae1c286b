#include <cuda_runtime.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <sys/wait.h>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

static int seen = 0;
static void look(void* data) { seen += *(int*)data; }
static void own(int) { _exit(3); }

int main() {
    const int n = 4096;
    int *x, *half, *pinned, *device, *from;
    cudaStream_t one, two;
    cudaEvent_t done;
    cudaStreamCreate(&one);
    cudaStreamCreate(&two);
    cudaEventCreate(&done);
    cudaMallocManaged(&x, n * sizeof(int));
    cudaMallocManaged(&half, 64 * sizeof(int));
    cudaMallocHost(&pinned, n * sizeof(int));
    cudaMallocHost(&from, n * sizeof(int));
    cudaMalloc(&device, n * sizeof(int));
    memset(pinned, 0, n * sizeof(int));
    for (int i = 0; i < n; i++) from[i] = i;
    int sum = 0;

    // Waited for by an event, by a query, by a synchronous copy, by a host function.
    fill<<<16, 256, 0, one>>>(x, n, 1);
    cudaEventRecord(done, one);
    fill<<<16, 256, 0, two>>>(device, n, 2);
    cudaMemcpyAsync(pinned, device, n * sizeof(int), cudaMemcpyDeviceToHost, two);
    cudaEventSynchronize(done);
    sum += x[n - 1];
    while (cudaStreamQuery(two) == cudaErrorNotReady) {}
    sum += pinned[17];
    fill<<<16, 256>>>(x, n, 3);
    cudaMemcpy(device, x, n * sizeof(int), cudaMemcpyDefault);
    sum += x[5];
    fill<<<16, 256, 0, one>>>(x, n, 4);
    cudaLaunchHostFunc(one, look, x);
    cudaStreamSynchronize(one);
    sum += seen;

    // What the device only reads, the half that no kernel writes, and writes of the host.
    cudaMemcpyAsync(device, from, n * sizeof(int), cudaMemcpyHostToDevice, one);
    sum += from[1];
    half[63] = 9;
    fill<<<1, 32, 0, one>>>(half, 32, 5);
    sum += half[63];
    fill<<<16, 256, 0, one>>>(x, n, 6);
    x[0] = 7;
    cudaDeviceSynchronize();
    sum += half[0];

    // A handler of its own, and a child that has no part in the work.
    signal(SIGSEGV, own);
    fill<<<16, 256, 0, one>>>(x, n, 8);
    pid_t child = fork();
    if (!child) _exit(x[n - 1] >= 0 ? 0 : 1);
    int status = 1;
    waitpid(child, &status, 0);
    cudaDeviceSynchronize();
    sum += x[1];
    PASS(sum == 1 + 2 + 3 + 4 + 1 + 9 + 5 + 8 && status == 0);
}
