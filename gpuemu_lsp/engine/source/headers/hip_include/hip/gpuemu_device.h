// Functions of HIP's device code. It tests __CUDACC_RTC__, so that NVRTC gets it as it is.
//
// Devices here have warps of 32 lanes, and HIP's programs are written for wavefronts of 64. What means the same on both
// is a function; what does not is refused where a thread reaches it, by a pragma that the emulator reads.
#pragma once

#ifndef __CUDACC_RTC__
// They use functions whose names are macros below. NVRTC gets them first.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <hip/hip_runtime_api.h>
#endif

#define GPUEMU_REFUSED(name, reason) asm volatile(".pragma \"gpuemu-refused `" name "` " reason "\";" ::: "memory")
#define GPUEMU_WAVEFRONT(name) \
    GPUEMU_REFUSED(name, "depends on wavefronts of 64 lanes, and the program runs on a device with warps of 32")

// Says of a module of a program that it is of HIP.
static __device__ __attribute__((used)) const char gpuemu_wavefronts_of_64 = 1;

namespace gpuemu_hip {

// With a width of at most 32, or if lanes are exchanged by less than 32, no value comes from the other half of a
// wavefront.
template <class T>
__device__ __forceinline__ T shfl(T value, int lane, int width = 64) {
    if (width > 32) GPUEMU_WAVEFRONT("__shfl");
    return __shfl_sync(__activemask(), value, lane, width > 32 ? 32 : width);
}
template <class T>
__device__ __forceinline__ T shfl_up(T value, unsigned delta, int width = 64) {
    if (width > 32) GPUEMU_WAVEFRONT("__shfl_up");
    return __shfl_up_sync(__activemask(), value, delta, width > 32 ? 32 : width);
}
template <class T>
__device__ __forceinline__ T shfl_down(T value, unsigned delta, int width = 64) {
    if (width > 32) GPUEMU_WAVEFRONT("__shfl_down");
    return __shfl_down_sync(__activemask(), value, delta, width > 32 ? 32 : width);
}
template <class T>
__device__ __forceinline__ T shfl_xor(T value, int mask, int width = 64) {
    if (width > 32 && (mask & ~31)) GPUEMU_WAVEFRONT("__shfl_xor");
    return __shfl_xor_sync(__activemask(), value, mask, width > 32 ? 32 : width);
}
template <class T>
__device__ __forceinline__ T shfl_sync(unsigned long long, T value, int lane, int width = 64) {
    return shfl(value, lane, width);
}
template <class T>
__device__ __forceinline__ T shfl_up_sync(unsigned long long, T value, unsigned delta, int width = 64) {
    return shfl_up(value, delta, width);
}
template <class T>
__device__ __forceinline__ T shfl_down_sync(unsigned long long, T value, unsigned delta, int width = 64) {
    return shfl_down(value, delta, width);
}
template <class T>
__device__ __forceinline__ T shfl_xor_sync(unsigned long long, T value, int mask, int width = 64) {
    return shfl_xor(value, mask, width);
}

#define GPUEMU_OF_WAVEFRONT(type, function, name)            \
    template <class... Arguments>                            \
    __device__ __forceinline__ type function(Arguments...) { \
        GPUEMU_WAVEFRONT(name);                              \
        return static_cast<type>(0);                         \
    }
GPUEMU_OF_WAVEFRONT(unsigned long long, ballot, "__ballot")
GPUEMU_OF_WAVEFRONT(int, all, "__all")
GPUEMU_OF_WAVEFRONT(int, any, "__any")
GPUEMU_OF_WAVEFRONT(unsigned long long, activemask, "__activemask")
GPUEMU_OF_WAVEFRONT(unsigned long long, match_any, "__match_any")
GPUEMU_OF_WAVEFRONT(unsigned long long, match_all, "__match_all")
GPUEMU_OF_WAVEFRONT(unsigned, lane_id, "__lane_id")
GPUEMU_OF_WAVEFRONT(void, syncwarp, "__syncwarp")

// Host code may have the number, device code may not: what it does with it is written for 64 lanes.
__host__ __device__ __forceinline__ int wavefront_size() {
#ifdef __CUDA_ARCH__
    GPUEMU_WAVEFRONT("warpSize");
#endif
    return 64;
}

// Fields of bits.
__device__ __forceinline__ unsigned long long bitextract(unsigned long long value, unsigned offset, unsigned width) {
    return width == 0 ? 0 : value >> offset & ~0ull >> (64 - width);
}
__device__ __forceinline__ unsigned long long bitinsert(
    unsigned long long target, unsigned long long value, unsigned offset, unsigned width) {
    unsigned long long mask = width == 0 ? 0 : ~0ull >> (64 - width) << offset;
    return (target & ~mask) | (value << offset & mask);
}

// Vectors have operators, component by component.
template <class V>
struct Components;
#define GPUEMU_VECTORS(scalar, name)                                  \
    template <> struct Components<name##2> { typedef scalar type; enum { count = 2 }; }; \
    template <> struct Components<name##3> { typedef scalar type; enum { count = 3 }; }; \
    template <> struct Components<name##4> { typedef scalar type; enum { count = 4 }; };
GPUEMU_VECTORS(signed char, char)
GPUEMU_VECTORS(unsigned char, uchar)
GPUEMU_VECTORS(short, short)
GPUEMU_VECTORS(unsigned short, ushort)
GPUEMU_VECTORS(int, int)
GPUEMU_VECTORS(unsigned, uint)
GPUEMU_VECTORS(float, float)
GPUEMU_VECTORS(double, double)
#undef GPUEMU_VECTORS

}  // namespace gpuemu_hip

#define GPUEMU_OPERATOR(sign)                                                                      \
    template <class V, int n = gpuemu_hip::Components<V>::count>                                   \
    __host__ __device__ __forceinline__ V operator sign(V a, const V& b) {                         \
        typedef typename gpuemu_hip::Components<V>::type T;                                        \
        for (int i = 0; i < n; ++i) ((T*)&a)[i] = ((T*)&a)[i] sign((const T*)&b)[i];               \
        return a;                                                                                  \
    }                                                                                              \
    template <class V, int n = gpuemu_hip::Components<V>::count>                                   \
    __host__ __device__ __forceinline__ V operator sign(V a, typename gpuemu_hip::Components<V>::type b) { \
        typedef typename gpuemu_hip::Components<V>::type T;                                        \
        for (int i = 0; i < n; ++i) ((T*)&a)[i] = ((T*)&a)[i] sign b;                              \
        return a;                                                                                  \
    }                                                                                              \
    template <class V, int n = gpuemu_hip::Components<V>::count>                                   \
    __host__ __device__ __forceinline__ V operator sign(typename gpuemu_hip::Components<V>::type a, V b) { \
        typedef typename gpuemu_hip::Components<V>::type T;                                        \
        for (int i = 0; i < n; ++i) ((T*)&b)[i] = a sign((T*)&b)[i];                               \
        return b;                                                                                  \
    }                                                                                              \
    template <class V, class W, int n = gpuemu_hip::Components<V>::count>                          \
    __host__ __device__ __forceinline__ V& operator sign##=(V & a, const W& b) {                   \
        return a = a sign b;                                                                       \
    }
GPUEMU_OPERATOR(+)
GPUEMU_OPERATOR(-)
GPUEMU_OPERATOR(*)
GPUEMU_OPERATOR(/)
#undef GPUEMU_OPERATOR

GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_readfirstlane, "__builtin_amdgcn_readfirstlane")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_readlane, "__builtin_amdgcn_readlane")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_writelane, "__builtin_amdgcn_writelane")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_ds_bpermute, "__builtin_amdgcn_ds_bpermute")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_ds_permute, "__builtin_amdgcn_ds_permute")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_ds_swizzle, "__builtin_amdgcn_ds_swizzle")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_mov_dpp, "__builtin_amdgcn_mov_dpp")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_mov_dpp8, "__builtin_amdgcn_mov_dpp8")
GPUEMU_OF_WAVEFRONT(int, __builtin_amdgcn_update_dpp, "__builtin_amdgcn_update_dpp")
GPUEMU_OF_WAVEFRONT(unsigned, __builtin_amdgcn_mbcnt_lo, "__builtin_amdgcn_mbcnt_lo")
GPUEMU_OF_WAVEFRONT(unsigned, __builtin_amdgcn_mbcnt_hi, "__builtin_amdgcn_mbcnt_hi")
GPUEMU_OF_WAVEFRONT(unsigned, __builtin_amdgcn_permlane16, "__builtin_amdgcn_permlane16")
GPUEMU_OF_WAVEFRONT(unsigned, __builtin_amdgcn_permlanex16, "__builtin_amdgcn_permlanex16")
GPUEMU_OF_WAVEFRONT(unsigned long long, __builtin_amdgcn_ballot_w64, "__builtin_amdgcn_ballot_w64")
GPUEMU_OF_WAVEFRONT(unsigned, __builtin_amdgcn_ballot_w32, "__builtin_amdgcn_ballot_w32")
GPUEMU_OF_WAVEFRONT(unsigned long long, __builtin_amdgcn_uicmp, "__builtin_amdgcn_uicmp")
GPUEMU_OF_WAVEFRONT(unsigned long long, __builtin_amdgcn_sicmp, "__builtin_amdgcn_sicmp")
GPUEMU_OF_WAVEFRONT(unsigned long long, __builtin_amdgcn_read_exec, "__builtin_amdgcn_read_exec")
GPUEMU_OF_WAVEFRONT(unsigned, __builtin_amdgcn_wavefrontsize, "__builtin_amdgcn_wavefrontsize")
GPUEMU_OF_WAVEFRONT(void, __builtin_amdgcn_wave_barrier, "__builtin_amdgcn_wave_barrier")
#undef GPUEMU_OF_WAVEFRONT

#define GPUEMU_OF_AMD(type, name)                                              \
    template <class... Arguments>                                              \
    __device__ __forceinline__ type name(Arguments...) {                       \
        GPUEMU_REFUSED(#name, "is an instruction of AMD's GPUs: it is not run"); \
        return static_cast<type>(0);                                           \
    }
GPUEMU_OF_AMD(float, __builtin_amdgcn_rcpf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_rsqf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_sqrtf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_exp2f)
GPUEMU_OF_AMD(float, __builtin_amdgcn_logf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_sinf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_cosf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_fractf)
GPUEMU_OF_AMD(float, __builtin_amdgcn_fmed3f)
GPUEMU_OF_AMD(float, __builtin_amdgcn_fdot2)
GPUEMU_OF_AMD(int, __builtin_amdgcn_sdot2)
GPUEMU_OF_AMD(int, __builtin_amdgcn_sdot4)
GPUEMU_OF_AMD(int, __builtin_amdgcn_sdot8)
GPUEMU_OF_AMD(unsigned, __builtin_amdgcn_udot4)
GPUEMU_OF_AMD(int, __builtin_amdgcn_sudot4)
GPUEMU_OF_AMD(unsigned, __builtin_amdgcn_perm)
GPUEMU_OF_AMD(unsigned, __builtin_amdgcn_alignbit)
GPUEMU_OF_AMD(unsigned, __builtin_amdgcn_alignbyte)
GPUEMU_OF_AMD(unsigned, __builtin_amdgcn_ubfe)
GPUEMU_OF_AMD(int, __builtin_amdgcn_sbfe)
GPUEMU_OF_AMD(unsigned, __builtin_amdgcn_s_getreg)
GPUEMU_OF_AMD(unsigned long long, __builtin_amdgcn_s_memtime)
GPUEMU_OF_AMD(unsigned long long, __builtin_amdgcn_s_memrealtime)
GPUEMU_OF_AMD(void, __builtin_amdgcn_global_load_lds)
#undef GPUEMU_OF_AMD

#define __shfl(...) gpuemu_hip::shfl(__VA_ARGS__)
#define __shfl_up(...) gpuemu_hip::shfl_up(__VA_ARGS__)
#define __shfl_down(...) gpuemu_hip::shfl_down(__VA_ARGS__)
#define __shfl_xor(...) gpuemu_hip::shfl_xor(__VA_ARGS__)
#define __shfl_sync(...) gpuemu_hip::shfl_sync(__VA_ARGS__)
#define __shfl_up_sync(...) gpuemu_hip::shfl_up_sync(__VA_ARGS__)
#define __shfl_down_sync(...) gpuemu_hip::shfl_down_sync(__VA_ARGS__)
#define __shfl_xor_sync(...) gpuemu_hip::shfl_xor_sync(__VA_ARGS__)
#define __ballot(...) gpuemu_hip::ballot(__VA_ARGS__)
#define __ballot_sync(...) gpuemu_hip::ballot(__VA_ARGS__)
#define __all(...) gpuemu_hip::all(__VA_ARGS__)
#define __all_sync(...) gpuemu_hip::all(__VA_ARGS__)
#define __any(...) gpuemu_hip::any(__VA_ARGS__)
#define __any_sync(...) gpuemu_hip::any(__VA_ARGS__)
#define __activemask() gpuemu_hip::activemask()
#define __match_any_sync(...) gpuemu_hip::match_any(__VA_ARGS__)
#define __match_all_sync(...) gpuemu_hip::match_all(__VA_ARGS__)
#define __match_any(...) gpuemu_hip::match_any(__VA_ARGS__)
#define __match_all(...) gpuemu_hip::match_all(__VA_ARGS__)
#define __lane_id() gpuemu_hip::lane_id()
#define __syncwarp(...) gpuemu_hip::syncwarp()
#define __AMDGCN_WAVEFRONT_SIZE 64
#define __AMDGCN_WAVEFRONT_SIZE__ 64

// The second number is of warps for each execution unit of AMD's GPUs.
#undef __launch_bounds__
#define __launch_bounds__(threads, ...) __attribute__((launch_bounds(threads)))

#define __bitextract_u32(value, offset, width) ((unsigned)gpuemu_hip::bitextract(value, (offset) & 31, (width) & 31))
#define __bitextract_u64(value, offset, width) gpuemu_hip::bitextract(value, (offset) & 63, (width) & 63)
#define __bitinsert_u32(target, value, offset, width) \
    ((unsigned)gpuemu_hip::bitinsert(target, value, (offset) & 31, (width) & 31))
#define __bitinsert_u64(target, value, offset, width) \
    gpuemu_hip::bitinsert(target, value, (offset) & 63, (width) & 63)
#define wall_clock64() clock64()
#define unsafeAtomicAdd(address, value) atomicAdd(address, value)
#define safeAtomicAdd(address, value) atomicAdd(address, value)
#define atomicAddNoRet(address, value) ((void)atomicAdd(address, value))
#define __builtin_amdgcn_s_waitcnt(counters)
#define __builtin_amdgcn_s_sleep(cycles)
#define __builtin_amdgcn_s_setprio(priority)
#define __builtin_amdgcn_sched_barrier(mask)
#define __builtin_amdgcn_sched_group_barrier(...)
#define __builtin_amdgcn_fence(...) __threadfence()
#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_workitem_id_x() threadIdx.x
#define __builtin_amdgcn_workitem_id_y() threadIdx.y
#define __builtin_amdgcn_workitem_id_z() threadIdx.z
#define __builtin_amdgcn_workgroup_id_x() blockIdx.x
#define __builtin_amdgcn_workgroup_id_y() blockIdx.y
#define __builtin_amdgcn_workgroup_id_z() blockIdx.z

// A member `warpSize` of the device's properties is a member function of that name.
__host__ __device__ __forceinline__ int gpuemu_wavefront_size() { return gpuemu_hip::wavefront_size(); }
#define warpSize gpuemu_wavefront_size()
