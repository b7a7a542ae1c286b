#pragma once

#include <cuda_fp16.h>
#include <hip/hip_runtime.h>

#define _Float16 __half
