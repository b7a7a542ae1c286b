// The names of NVIDIA's compiler of PTX that Warp's sources call, which is in no wheel. Nothing here is called.
#pragma once

#include <cstddef>

typedef struct nvPTXCompiler* nvPTXCompilerHandle;

enum nvPTXCompileResult {
    NVPTXCOMPILE_SUCCESS,
    NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE,
    NVPTXCOMPILE_ERROR_INVALID_INPUT,
    NVPTXCOMPILE_ERROR_COMPILATION_FAILURE,
    NVPTXCOMPILE_ERROR_INTERNAL,
    NVPTXCOMPILE_ERROR_OUT_OF_MEMORY,
    NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE,
    NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION
};

#define GPUEMU_ABSENT(name, ...) \
    inline nvPTXCompileResult name(__VA_ARGS__) { return NVPTXCOMPILE_ERROR_INTERNAL; }
GPUEMU_ABSENT(nvPTXCompilerCreate, nvPTXCompilerHandle*, size_t, const char*)
GPUEMU_ABSENT(nvPTXCompilerDestroy, nvPTXCompilerHandle*)
GPUEMU_ABSENT(nvPTXCompilerCompile, nvPTXCompilerHandle, int, const char* const*)
GPUEMU_ABSENT(nvPTXCompilerGetCompiledProgramSize, nvPTXCompilerHandle, size_t*)
GPUEMU_ABSENT(nvPTXCompilerGetCompiledProgram, nvPTXCompilerHandle, void*)
GPUEMU_ABSENT(nvPTXCompilerGetErrorLogSize, nvPTXCompilerHandle, size_t*)
GPUEMU_ABSENT(nvPTXCompilerGetErrorLog, nvPTXCompilerHandle, char*)
#undef GPUEMU_ABSENT
