// The sizes of rungs 10, 11 and 22: a block computes BM×BN elements of C, a thread TM×TN of them.
#pragma once

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 32                                    // length of a stage along K
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 16                                    // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // of the pipeline
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of tiles of C that are computed together
#endif
#ifndef CHUNK
#define CHUNK 8                                  // k that are unrolled
#endif
#define PAD 4                                    // of a row of A's stage, against bank conflicts
#define LANES_M 4                                // a warp's lanes: 4 rows of 8
#define LANES_N 8
#define WM (LANES_M * TM)                        // rows of C that a warp computes
#define WN (LANES_N * TN)                        // columns
#define THREADS ((BM / TM) * (BN / TN))
// Blocks that must fit on one SM: as many as leave a thread the registers for its accumulators.
#define RESIDENT_THREADS (TM * TN == 128 ? 256 : 512)
#define MIN_BLOCKS (RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1)

struct Stage {
    float a[BK][BM + PAD];                       // transposed: a[k][row]
    float b[BK][BN];
};
#define STAGE_FLOATS ((int)(sizeof(Stage) / 4))  // from one stage to the next

// A thread's column of A and row of B, for one k.
struct Fragments {
    float a[TM], b[TN];
};
