// ldmatrix: a warp loads four matrices of 8 rows of 16 bytes from shared memory into registers.
#pragma once

// Lane l gives the address of row l % 8 of matrix l / 8, and receives word l % 4 of row l / 4 of
// each matrix: what mma.sync takes of A.
__device__ __forceinline__ void ldmatrix(unsigned (&words)[4], unsigned row_address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_address) : "memory");
}

// The same, and each matrix is transposed as 8×8 elements of 16 bits: lane l = 4g + t receives
// elements 2t and 2t + 1 of column g. That is what mma.sync takes of B, for two mma tiles.
__device__ __forceinline__ void ldmatrix_trans(unsigned (&left)[2], unsigned (&right)[2],
                                               unsigned row_address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(left[0]), "=r"(left[1]), "=r"(right[0]), "=r"(right[1])
                 : "r"(row_address) : "memory");
}
