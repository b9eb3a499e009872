"""OpenCL C for one kernel of a program.

Everything is a compiler built-in, so no device library is needed. Shapes but the number of rows are constants of the
source. A kernel's arguments are the input `x`, the output `y`, one pointer for each learned parameter of its operators
in order, and the number of rows; rows behind the last one are read as 0 and not written.

`Body` is what a nest's own module makes; the frame around it and the element-wise operators are here.
"""

from __future__ import annotations

from msgspec import Struct

from asmevo.fusion.chain import Activate, Activation, Bias, Chain, Operator, parameter_name
from asmevo.fusion.plan import Group, KernelPlan

_PRELUDE = """\
/* {title} */
typedef unsigned int uint;
#define LOG2E 1.44269504088896340736f

static inline uint item_x(void) {{ return (uint)__builtin_amdgcn_workitem_id_x(); }}
static inline uint item_y(void) {{ return (uint)__builtin_amdgcn_workitem_id_y(); }}
static inline uint group_x(void) {{ return (uint)__builtin_amdgcn_workgroup_id_x(); }}
static inline uint group_y(void) {{ return (uint)__builtin_amdgcn_workgroup_id_y(); }}

static inline void group_barrier(void)
{{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}}

static inline float fast_exp(float x) {{ return __builtin_amdgcn_exp2f(x * LOG2E); }}
static inline float sigmoid(float x) {{ return __builtin_amdgcn_rcpf(1.0f + fast_exp(-x)); }}
"""

_FUNCTIONS: dict[Activation, str] = {
    "relu": "__builtin_fmaxf(z, 0.0f)",
    "sigmoid": "sigmoid(z)",
    "silu": "z * sigmoid(z)",
    "gelu": "z * sigmoid(1.5957691216057308f * (z + 0.044715f * z * z * z))",  # 2 sqrt(2 / pi)
    "tanh": "2.0f * sigmoid(2.0f * z) - 1.0f",
}


class Body(Struct, frozen=True):
    """What stands inside the kernel, and the workgroup in work-items (x, y)."""

    workgroup: tuple[int, int]
    lines: tuple[str, ...]


def kernel_name(plan: KernelPlan) -> str:
    """The symbol of a kernel."""
    return f"operators_{plan.group.start + 1}_to_{plan.group.stop}"


def described(operator: Operator) -> str:
    """A word or two for titles and tables."""
    match operator:
        case Activate():
            return operator.function
        case Bias():
            return "bias"
        case _:
            return operator.op.replace("_", " ")


def title(chain: Chain, group: Group) -> str:
    """The operators of a group in words."""
    return " + ".join(described(operator) for operator in group.operators(chain))


def element_wise(chain: Chain, first: int, stop: int, column: str) -> list[str]:
    """Statements that take `z` through the element-wise operators at first <= i < stop; `column` is its feature."""
    lines = []
    for place in range(first, stop):
        operator = chain.operators[place]
        if isinstance(operator, Bias):
            lines.append(f"z += {parameter_name(place)}[{column}];")
        elif isinstance(operator, Activate):
            lines.append(f"z = {_FUNCTIONS[operator.function]};")
    return lines


def indented(lines: list[str], levels: int = 1) -> list[str]:
    """The lines, so many levels further in."""
    return ["    " * levels + line if line else line for line in lines]


def framed(chain: Chain, plan: KernelPlan, body: Body) -> str:
    """The whole source of a kernel."""
    width, height = body.workgroup
    pointers = ["__global const float *restrict x", "__global float *restrict y"]
    pointers += [f"__global const float *restrict {parameter_name(place)}" for place in parameters(chain, plan.group)]
    words = f"{title(chain, plan.group)}: {plan.nest}"
    return "\n".join(
        [
            _PRELUDE.format(title=words),
            f"__attribute__((reqd_work_group_size({width}, {height}, 1))) __kernel void",
            f"{kernel_name(plan)}({', '.join(pointers)}, uint rows)",
            "{",
            *indented(list(body.lines)),
            "}",
            "",
        ]
    )


def parameters(chain: Chain, group: Group) -> list[int]:
    """Indices of the group's operators that have learned something."""
    return [place for place in range(group.start, group.stop) if chain.parameter_shape(place) is not None]
