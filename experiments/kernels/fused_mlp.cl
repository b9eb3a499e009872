/* y = silu(x * w + bias) in f32: the compute-bound kernel of the experiment.
 *
 * A workgroup of 16 x 16 makes a 64 x 64 tile of y. Both operands pass through LDS in slices of 16, and each work-item
 * keeps a 4 x 4 tile of accumulators in registers, so that 8 values read from LDS feed 16 multiply-adds.
 * Rows of x and columns of w come in multiples of 64, the depth in multiples of 16.
 */
#include "device.h"

#define TILE 64
#define SLICE 16
#define OWN 4
#define SIDE (TILE / OWN)
#define ITEMS (SIDE * SIDE)

KERNEL(SIDE, SIDE)
fused_mlp(GLOBAL const float *RESTRICT x, GLOBAL const float *RESTRICT w, GLOBAL const float *RESTRICT bias,
          GLOBAL float *RESTRICT y, uint columns, uint depth)
{
    LOCAL float xs[SLICE][TILE + OWN]; /* transposed: xs[depth][row] */
    LOCAL float ws[SLICE][TILE];
    const uint tx = item_x(), ty = item_y(), flat = ty * SIDE + tx;
    const uint row0 = group_y() * TILE, column0 = group_x() * TILE;
    float sums[OWN][OWN];

#pragma unroll
    for (uint i = 0; i < OWN; i++)
#pragma unroll
        for (uint j = 0; j < OWN; j++)
            sums[i][j] = 0.0f;

    for (uint start = 0; start < depth; start += SLICE) {
#pragma unroll
        for (uint i = 0; i < TILE * SLICE / ITEMS; i++) {
            const uint e = flat + i * ITEMS;
            xs[e % SLICE][e / SLICE] = x[(row0 + e / SLICE) * depth + start + e % SLICE];
            ws[e / TILE][e % TILE] = w[(start + e / TILE) * columns + column0 + e % TILE];
        }
        group_barrier();
#pragma unroll
        for (uint d = 0; d < SLICE; d++) {
            float a[OWN], b[OWN];
#pragma unroll
            for (uint i = 0; i < OWN; i++) {
                a[i] = xs[d][ty * OWN + i];
                b[i] = ws[d][tx * OWN + i];
            }
#pragma unroll
            for (uint i = 0; i < OWN; i++)
#pragma unroll
                for (uint j = 0; j < OWN; j++)
                    sums[i][j] += a[i] * b[j];
        }
        group_barrier();
    }

#pragma unroll
    for (uint i = 0; i < OWN; i++)
#pragma unroll
        for (uint j = 0; j < OWN; j++) {
            const uint column = column0 + tx * OWN + j;
            y[(row0 + ty * OWN + i) * columns + column] = silu(sums[i][j] + bias[column]);
        }
}
