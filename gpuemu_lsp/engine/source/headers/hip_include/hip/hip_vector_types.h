#pragma once

#include <hip/hip_runtime.h>
#include <vector_types.h>
