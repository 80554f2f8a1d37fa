// Addresses in shared memory, as PTX instructions take them: 32 bits.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}
