// What hand-picked kernels do not show together: LDS in loops with barriers, f64, switches, 64-bit division, dot
// products, packed halves, atomics of every size, dynamic scratch, calls, lane exchanges. Compiled at several levels for
// every target by tests/checks/test_fresh_programs.py, which wants no error in the result.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define LANE __builtin_amdgcn_workitem_id_x()
#define ITEM (__builtin_amdgcn_workgroup_id_x() * 256 + LANE)
#define BARRIER                                           \
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");  \
  __builtin_amdgcn_s_barrier();                           \
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void bodies(__global const float4 *in, __global float4 *out, int n) {
  __local float4 tile[256];
  float4 a = in[ITEM], force = (float4)(0);
  for (int b = 0; b < n; b += 256) {
    tile[LANE] = in[b + LANE];
    BARRIER;
    for (int j = 0; j < 256; j++) {
      float4 d = tile[j] - a;
      float s = __builtin_amdgcn_rsqf(d.x * d.x + d.y * d.y + d.z * d.z + 1e-3f);
      force += d * (s * s * s * tile[j].w);
    }
    BARRIER;
  }
  out[ITEM] = force;
}

__kernel void doubles(__global const double *a, __global const double *x, __global double *y, int n) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += a[(long)ITEM * n + k] * x[k];
  y[ITEM] = sum / (1.0 + sum * sum);
}

__kernel void cases(__global int *a, int n) {
  int v = a[ITEM];
  switch (v & 15) {
    case 0: v *= 3; break;
    case 1: v = v / 7; break;
    case 2: v ^= n; break;
    case 3: v = v % n; break;
    case 4: v = __builtin_popcount(v); break;
    case 5: v = __builtin_clz(v | 1); break;
    case 6: v = (int)(((long)v * n) >> 17); break;
    case 7: v = v << (n & 31); break;
    case 8: while (v > 10) v = v / 2 - 1; break;
    default: v = -v;
  }
  a[ITEM] = v;
}

__kernel void dots(__global const char4 *a, __global const char4 *b, __global int *c, int n) {
  int sum = 0;
  for (int k = 0; k < n; k++) {
    char4 x = a[ITEM * n + k], y = b[k];
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  c[ITEM] = sum;
}

__kernel void halves(__global const half2 *a, __global half2 *b, half2 k) {
  half2 x = a[ITEM];
  x = x * k + x;
  b[ITEM] = __builtin_elementwise_max(x, k);
}

__kernel void counts(__global const unsigned char *a, __global uint *all, int n) {
  __local uint own[256];
  own[LANE] = 0;
  BARRIER;
  for (int i = ITEM; i < n; i += 65536)
    __opencl_atomic_fetch_add((__local atomic_uint *)&own[a[i]], 1, memory_order_relaxed, memory_scope_work_group);
  BARRIER;
  __opencl_atomic_fetch_add((__global atomic_uint *)&all[LANE], own[LANE], memory_order_relaxed, memory_scope_device);
}

__kernel void atomics(__global ulong *a, __global float *f, ulong k) {
  __opencl_atomic_fetch_max((__global atomic_ulong *)&a[ITEM & 63], k + ITEM, memory_order_seq_cst, memory_scope_device);
  __opencl_atomic_fetch_add((__global atomic_float *)&f[ITEM & 7], 1.5f, memory_order_relaxed, memory_scope_device);
}

__kernel void scratch(__global int *a, int n) {
  int t[64];
  for (int k = 0; k < 64; k++) t[k] = a[ITEM * 64 + k];
  for (int k = 0; k < n; k++) {
    int x = a[k] & 63;
    t[x] += t[(x * 7 + k) & 63];
  }
  for (int k = 0; k < 64; k++) a[ITEM * 64 + k] = t[k];
}

__attribute__((noinline)) float called(float x, int n) {
  for (int i = 0; i < n; i++) x = x * 1.01f + __builtin_amdgcn_sinf(x);
  return x;
}

__kernel void calls(__global float *a, int n) { a[ITEM] = called(a[ITEM], n) + called(a[ITEM] + 1, n * 2); }

__kernel void lanes(__global int *a) {
  int v = a[ITEM];
  for (int d = 1; d < 32; d <<= 1) v += __builtin_amdgcn_ds_bpermute(((LANE ^ d) & 31) << 2, v);
  v += __builtin_amdgcn_update_dpp(0, v, 0x111, 0xf, 0xf, true);
  a[ITEM] = v + __builtin_amdgcn_readfirstlane(v);
}

__kernel void window(__global const float *in, __global float *out, __constant float *w, int width) {
  float sum = 0;
  for (int r = 0; r < 5; r++)
    for (int c = 0; c < 5; c++) sum += in[r * width + ITEM + c] * w[r * 5 + c];
  out[ITEM] = sum > 0 ? sum : 0.01f * sum;
}

__kernel void longs(__global ulong *a, ulong m) {
  ulong x = a[ITEM];
  for (int k = 0; k < 8; k++) {
    x = x * 6364136223846793005UL + m;
    x ^= x >> 31;
    x /= m | 1;
  }
  a[ITEM] = x;
}
