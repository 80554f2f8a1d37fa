// 14  Steps: a measurement beside 14_wmma.cu, no rung of the ladder
// Idea:    the staged kernel of 14_wmma.cu with another padding of its tiles: ROW_PAD elements at a
//          row's end. With 8, as 14 has them, eight rows begin in different banks, and every other
//          row begins 16 bytes off a multiple of 32. With 16, all rows begin at multiples of 32
//          bytes, and rows meet in the banks in pairs.
// Launch:  as 14_wmma.cu with STAGES of 3 and more, and it takes what that takes.

#ifndef ROW_PAD
#define ROW_PAD 8
#endif
#define PAD ROW_PAD

#include "14_wmma.cu"
