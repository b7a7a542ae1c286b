#pragma once

#include <cuComplex.h>
#include <hip/hip_runtime.h>

#define hipFloatComplex cuFloatComplex
#define hipDoubleComplex cuDoubleComplex
#define hipComplex cuComplex
#define make_hipFloatComplex make_cuFloatComplex
#define make_hipDoubleComplex make_cuDoubleComplex
#define make_hipComplex make_cuComplex
#define hipCreal cuCreal
#define hipCrealf cuCrealf
#define hipCimag cuCimag
#define hipCimagf cuCimagf
#define hipCadd cuCadd
#define hipCaddf cuCaddf
#define hipCsub cuCsub
#define hipCsubf cuCsubf
#define hipCmul cuCmul
#define hipCmulf cuCmulf
#define hipCdiv cuCdiv
#define hipCdivf cuCdivf
#define hipCabs cuCabs
#define hipCabsf cuCabsf
#define hipConj cuConj
#define hipConjf cuConjf
#define hipCfma cuCfma
#define hipCfmaf cuCfmaf
#define hipComplexFloatToDouble cuComplexFloatToDouble
#define hipComplexDoubleToFloat cuComplexDoubleToFloat
