// Of block 0, of each role and step: ROLES, STEPS and EVENTS of clock_readings.py.
__device__ long long marks[3][64][3], began;
#define BEGIN read_clock(&began, blockIdx.x == 0 && threadIdx.x == 0);
#define MARK(event) read_clock(&marks[warpgroup][k_tile][event], \
                               blockIdx.x == 0 && threadIdx.x % 128 == 0 && k_tile < 64);
