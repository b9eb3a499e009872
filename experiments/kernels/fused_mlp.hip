/* The same source as HIP. */
#include "fused_mlp.cl"
