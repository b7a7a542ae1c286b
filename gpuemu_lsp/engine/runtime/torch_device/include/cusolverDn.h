// Names of cuSOLVER that PyTorch's headers use. None of its functions is here.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "cusolver_common.h"
typedef struct cusolverDnContext* cusolverDnHandle_t;
