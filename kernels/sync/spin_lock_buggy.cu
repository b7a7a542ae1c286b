// A spin lock that is never released. expect-somewhere: sync/hang | sync/deadlock
__global__ void spin_lock(const int* x, int* total, int* lock, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int*)total += x[i];
            __threadfence();
            done = true;
        }
    }
}
