// Settings of 16 to 18; DTYPE is in wgmma_16bit.cuh, OUT32 in output_type.cuh, OP_B in
// operand_b.cuh.
#pragma once

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef STAGES
#define STAGES 4                                 // buffers for a tile of A and of B: the pipeline
#endif
#ifndef GROUP
#define GROUP 16                                 // rows of tiles that blocks take in turn, for L2
#endif
