// The driver API: a module of PTX, launches by it, its variable, fills of elements, and the same memory in the runtime.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

const char* MODULE = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 added;
.visible .entry add(.param .u64 x, .param .u32 n) {
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %a<4>;
    ld.param.u64 %a0, [x];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r1, %r1, %r2, %r3;
    setp.ge.s32 %p, %r1, %r0;
    @%p ret;
    cvta.to.global.u64 %a0, %a0;
    mul.wide.s32 %a1, %r1, 4;
    add.s64 %a1, %a0, %a1;
    ld.global.u32 %r4, [%a1];
    ld.global.u32 %r5, [added];
    add.s32 %r4, %r4, %r5;
    st.global.u32 [%a1], %r4;
    ret;
}
)";

__global__ void twice(unsigned* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main() {
    int n = 1000, count = 0, grid = 0, block = 0;
    unsigned added = 5, host[1000];
    size_t size = 0;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add, none;
    CUdeviceptr x, variable;
    CUstream stream;
    bool right = !cuInit(0) && !cuDeviceGetCount(&count) && count == 1 && !cuDeviceGet(&device, 0);
    right &= !cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context);
    right &= cuModuleLoadData(&module, MODULE) == CUDA_SUCCESS;
    right &= !cuModuleGetFunction(&add, module, "add");
    right &= cuModuleGetFunction(&none, module, "none") == CUDA_ERROR_NOT_FOUND;
    right &= !cuModuleGetGlobal(&variable, &size, module, "added") && size == sizeof added;
    right &= !cuOccupancyMaxPotentialBlockSize(&grid, &block, add, nullptr, 0, 256) && grid > 0 && block == 256;
    right &= !cuMemAlloc(&x, n * sizeof *host) && !cuMemsetD32(x, 7, n) && !cuMemcpyHtoD(variable, &added, size);
    right &= !cuStreamCreate(&stream, CU_STREAM_DEFAULT);
    void* arguments[] = {&x, &n};
    right &= !cuLaunchKernel(add, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
    struct {
        CUdeviceptr x;
        int n;
    } packed = {x, n};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    right &= !cuLaunchKernel(add, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, nullptr, extra);
    right &= !cuStreamSynchronize(stream);
    twice<<<(n + 127) / 128, 128>>>(reinterpret_cast<unsigned*>(x), n);
    right &= !cuMemcpyDtoH(host, x, sizeof host) && !cuMemFree(x) && !cuCtxSynchronize();
    for (unsigned value : host) right &= value == 34;
    PASS(right);
}
