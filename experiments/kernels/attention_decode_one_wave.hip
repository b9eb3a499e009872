/* The same kernel as HIP, compiled for one wave a SIMD. */
#define WAVES_PER_SIMD 1
#include "attention_decode.cl"
