// The lanes of a warp as in 08 and 09, where neighbours read the same operands in pairs: bits 1 and
// 4 of the lane count rows, bits 0, 2 and 3 columns. A road not taken by rung 10.
#pragma once

__device__ __forceinline__ int lane_row(int lane) { return lane / 2 % 2 + lane / 16 * 2; }
__device__ __forceinline__ int lane_col(int lane) { return lane % 2 + lane / 4 % 4 * 2; }
