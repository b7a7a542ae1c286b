// Names of cuSPARSE that PyTorch's headers use. None of its functions is here.
#pragma once
#include <cuda_runtime_api.h>
#include <library_types.h>

#define CUSPARSE_VER_MAJOR 12
#define CUSPARSE_VER_MINOR 0
#define CUSPARSE_VER_PATCH 0
#define CUSPARSE_VERSION 12000

typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusparseMatDescr* cusparseMatDescr_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0, CUSPARSE_STATUS_NOT_SUPPORTED = 10 } cusparseStatus_t;

#ifdef __cplusplus
extern "C"
#endif
    const char*
    cusparseGetErrorString(cusparseStatus_t status);
