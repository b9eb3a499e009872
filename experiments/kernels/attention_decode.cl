/* Decode attention in f32, four independent heads a workgroup: the memory-bound kernel of the experiment.
 *
 * Every head has keys and values of its own, [head][position][DIM], so each byte of them is read once and used for two
 * operations. Each of the 64 work-items walks every 64th position with four running softmaxes that share nothing:
 * a peak, a total and DIM accumulators for each head, all in registers. The 64 partial states are then merged in LDS
 * by a tree, head after head.
 *
 * WAVES_PER_SIMD, where it is defined, is asked for with amdgpu_waves_per_eu: with 1 the compiler may use every register.
 */
#include "device.h"

#define HEADS 4
#define DIM 16
#define ITEMS 64
#define STATE (DIM + 2) /* peak, total, sums[DIM] */
#define LOWEST (-1e30f)

#ifdef WAVES_PER_SIMD
__attribute__((amdgpu_waves_per_eu(WAVES_PER_SIMD, WAVES_PER_SIMD)))
#endif
KERNEL(ITEMS, 1)
attention_decode(GLOBAL const float *RESTRICT query, GLOBAL const float *RESTRICT keys,
                 GLOBAL const float *RESTRICT values, GLOBAL float *RESTRICT result, uint positions, float scale)
{
    LOCAL float part[ITEMS][STATE + 1];
    const uint t = item_x(), head0 = group_x() * HEADS;
    float peak[HEADS], total[HEADS], sums[HEADS][DIM];

#pragma unroll
    for (uint h = 0; h < HEADS; h++) {
        peak[h] = LOWEST;
        total[h] = 0.0f;
#pragma unroll
        for (uint d = 0; d < DIM; d++)
            sums[h][d] = 0.0f;
    }

    for (uint i = t; i < positions; i += ITEMS) {
#pragma unroll
        for (uint h = 0; h < HEADS; h++) {
            const uint place = ((head0 + h) * positions + i) * DIM;
            float score = 0.0f;
#pragma unroll
            for (uint d = 0; d < DIM; d++)
                score += query[(head0 + h) * DIM + d] * keys[place + d];
            score *= scale * LOG2E;
            const float top = __builtin_fmaxf(peak[h], score);
            const float fade = fast_exp2(peak[h] - top);
            const float weight = fast_exp2(score - top);
            total[h] = total[h] * fade + weight;
#pragma unroll
            for (uint d = 0; d < DIM; d++)
                sums[h][d] = sums[h][d] * fade + weight * values[place + d];
            peak[h] = top;
        }
    }

#pragma unroll
    for (uint h = 0; h < HEADS; h++) {
        part[t][0] = peak[h];
        part[t][1] = total[h];
#pragma unroll
        for (uint d = 0; d < DIM; d++)
            part[t][2 + d] = sums[h][d];
        group_barrier();
#pragma unroll 1
        for (uint span = ITEMS / 2; span > 0; span >>= 1) {
            if (t < span) {
                const float top = __builtin_fmaxf(part[t][0], part[t + span][0]);
                const float mine = fast_exp2(part[t][0] - top);
                const float other = fast_exp2(part[t + span][0] - top);
                part[t][0] = top;
#pragma unroll
                for (uint d = 1; d < STATE; d++)
                    part[t][d] = part[t][d] * mine + part[t + span][d] * other;
            }
            group_barrier();
        }
        if (t < DIM)
            result[(head0 + h) * DIM + t] = part[0][2 + t] * fast_rcp(part[0][1]);
        group_barrier();
    }
}
