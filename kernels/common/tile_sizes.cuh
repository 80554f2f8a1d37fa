// What a block and a thread compute, and how A and B are stored. For 12 and 13.
#pragma once

#ifndef BM
#define BM 64                                    // rows of C that a block computes
#endif
#ifndef BN
#define BN 64                                    // columns
#endif
#ifndef BK
#define BK 16                                    // how far along K one stage goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 8                                     // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // buffers for a tile of A and of B: the pipeline
#endif
#ifndef OP_A
#define OP_A 0                                   // 0: A is stored M×K, 1: K×M
#endif
#ifndef OP_B
#define OP_B 0                                   // 0: B is stored K×N, 1: N×K
#endif
