// The build of PyTorch for CUDA writes this header, which all others of c10/cuda include.
#pragma once
#define C10_CUDA_BUILD_SHARED_LIBS
