// PTX without line information: the finding is at the launch.
#include <cuda.h>

const char* MODULE = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry iota(.param .u64 x) {
    .reg .b32 %r<2>;
    .reg .b64 %a<2>;
    ld.param.u64 %a0, [x];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %a1, %r0, 4;
    add.s64 %a1, %a0, %a1;
    st.global.u32 [%a1], %r0;
    ret;
}
)";

int main() {
    CUmodule module;
    CUfunction iota;
    CUdeviceptr x;
    if (cuInit(0) || cuModuleLoadData(&module, MODULE) || cuModuleGetFunction(&iota, module, "iota")) return 1;
    if (cuMemAlloc(&x, 31 * sizeof(int))) return 1;  // allocated
    void* arguments[] = {&x};
    cuLaunchKernel(iota, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);  // bug: memory/out-of-bounds
    return cuMemFree(x);
}
