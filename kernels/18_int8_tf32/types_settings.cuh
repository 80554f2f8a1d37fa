// Settings of 18_int8_tf32.cu.
#pragma once

#ifndef DTYPE
#define DTYPE 3                                  // 2: TF32, 3: INT8, as in 15
#endif
#ifndef OP_B
#define OP_B 1                                   // B is stored N×K; 0: K×N
#endif
#ifndef BM
#define BM (OP_B ? 128 : 256)                    // rows of C that a block computes
#endif
#ifndef BN
#define BN (OP_B ? 256 : 128)                    // columns
#endif
#ifndef STAGES
#define STAGES 4                                 // buffers for a tile of A and of B: the pipeline
#endif
#ifndef GROUP
#define GROUP 16                                 // rows of tiles that blocks take in turn, for L2
#endif
#ifndef CLUSTER
#define CLUSTER 2                                // blocks whose tiles lie below one another
#endif
#ifndef SEND_LATER
#define SEND_LATER 1                 // 0: a tile is stored before the next is multiplied
#endif
