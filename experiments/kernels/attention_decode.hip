/* The same source as HIP. */
#include "attention_decode.cl"
