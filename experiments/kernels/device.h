/* What the kernels need of a device, in OpenCL C and in HIP, from one source.
 *
 * Everything is a compiler built-in: no ROCm, no HIP headers and no device library has to be installed.
 * OpenCL C names address spaces and HIP derives them, so GLOBAL is empty in HIP; LOCAL memory is declared at the
 * start of a kernel in both.
 */
#ifdef __HIP__
#define KERNEL(x, y) \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size((x) * (y), (x) * (y)))) void
#define DEVICE static inline __attribute__((device)) __attribute__((always_inline))
#define GLOBAL
#define LOCAL static __attribute__((shared))
#define RESTRICT __restrict__
typedef unsigned int uint;
#else
#define KERNEL(x, y) __attribute__((reqd_work_group_size(x, y, 1))) __kernel void
#define DEVICE static inline __attribute__((always_inline))
#define GLOBAL __global
#define LOCAL __local
#define RESTRICT restrict
typedef unsigned int uint;
#endif

#define LOG2E 1.44269504088896340736f

DEVICE uint item_x(void) { return (uint)__builtin_amdgcn_workitem_id_x(); }
DEVICE uint item_y(void) { return (uint)__builtin_amdgcn_workitem_id_y(); }
DEVICE uint group_x(void) { return (uint)__builtin_amdgcn_workgroup_id_x(); }
DEVICE uint group_y(void) { return (uint)__builtin_amdgcn_workgroup_id_y(); }

/* A barrier of the workgroup that also orders its LDS accesses. */
DEVICE void group_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

DEVICE float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
DEVICE float fast_rcp(float x) { return __builtin_amdgcn_rcpf(x); }
DEVICE float silu(float x) { return x * fast_rcp(1.0f + fast_exp2(-x * LOG2E)); }
