// Macros that nvcc and its host compiler predefine; sources select branches by them or require them.
//
// This follows CUDA's headers, some of which include host headers where these macros are defined.
#pragma once
#define register
#define __NVCC__ 1
#define __linux__ 1
#define __linux 1
#define __unix__ 1
#define __x86_64__ 1
#define __GNUC__ 12
#define __FLT_MAX__ FLT_MAX
#define __FLT_MIN__ FLT_MIN
#define __FLT_EPSILON__ FLT_EPSILON
#define __DBL_MAX__ DBL_MAX
#define __DBL_MIN__ DBL_MIN
#define __DBL_EPSILON__ DBL_EPSILON
#define __CHAR_BIT__ 8
#define __SCHAR_MAX__ 127
#define __SHRT_MAX__ 32767
#define __INT_MAX__ 2147483647
#define __LONG_MAX__ 9223372036854775807L
#define __LONG_LONG_MAX__ 9223372036854775807LL
#define __GNUC_MINOR__ 3
