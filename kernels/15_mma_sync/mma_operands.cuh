// Layouts of tiles and fragments, and the conversion to C: of FP16, or of what the settings say.
#pragma once

#ifndef SWIZZLE
#define SWIZZLE 1                                // 0: rows are not swizzled in shared memory
#endif
#ifndef OUT32
#define OUT32 0                                  // 1: C is float32 where A and B are of 16 bits
#endif
#ifndef BIAS
#define BIAS 0                                   // 1: add a bias for each column
#endif
#ifndef ACTIVATION
#define ACTIVATION 0                             // 0: none, 1: ReLU, 2: GELU by tanh, 3: by erf
#endif

#include "mma_instruction.cuh"

#if DTYPE == 0 && SWIZZLE && !OUT32 && !BIAS && !ACTIVATION && BK >= 64
#include "mma_fp16.cuh"
#else
#include "mma_types.cuh"                         // also of rows shorter than 128 bytes
#endif
