// The sizes of rungs 10, 11 and 22: a block computes BM×BN elements of C, a thread TM×TN of them.
#pragma once

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 32                                    // how far along K one stage goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 16                                    // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // buffers for a tile of A and of B: the pipeline
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of tiles that blocks take in turn, for L2
#endif
#ifndef CHUNK
#define CHUNK 8                                  // steps of k that are unrolled; an even number
#endif
#define PAD 4                                    // floats after each a[k]: neighbours along K lie
                                                 // 4 banks apart, so 8 k of 4 rows fill all 32
#define LANES_M 4                                // a warp's lanes: 4 rows of 8
#define LANES_N 8
#define WM (LANES_M * TM)                        // rows of C that a warp computes
#define WN (LANES_N * TN)                        // columns
static_assert(BM % WM == 0 && BN % WN == 0, "whole warps compute the tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "fragments are loaded four neighbours at a time");
static_assert(CHUNK % 2 == 0 && BK % CHUNK == 0, "fragments of two k take turns in whole chunks");

struct Stage {
    float a[BK][BM + PAD];                       // transposed: a[k][row]
    float b[BK][BN];
};
#define STAGE_FLOATS ((int)(sizeof(Stage) / 4))  // from one stage to the next

// A thread's column of A and row of B, for one k.
struct Fragments {
    float a[TM], b[TN];
};
