// The host, as nvcc names it: sources choose by these macros, or refuse to compile without them.
//
// This comes after CUDA's own headers. Some of them take these macros for leave to include the host's headers.
#pragma once
#define __NVCC__ 1
#define __linux__ 1
#define __linux 1
#define __unix__ 1
#define __x86_64__ 1
#define __GNUC__ 12
#define __GNUC_MINOR__ 3
