// For mma_instruction.cuh: the types of mma.sync besides FP16, by the macro DTYPE.
#pragma once

#if DTYPE == 1
typedef unsigned short Element;                  // the bits of a number
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#elif DTYPE == 2
typedef float Element;                           // whose last 13 bits are ignored
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif DTYPE == 3
typedef signed char Element;
#define MMA "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#elif DTYPE == 4
typedef unsigned char Element;
#define MMA "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
#elif DTYPE == 5
typedef unsigned char Element;
#define MMA "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"
#endif

#if DTYPE == 3
typedef int Accumulator;
#define ACCUMULATOR "+r"
#else
typedef float Accumulator;
#define ACCUMULATOR "+f"
#endif
