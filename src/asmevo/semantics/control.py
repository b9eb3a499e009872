"""What steers a wave: branches and calls, the end, barriers, messages, waits, hints, mode registers.

All of these are of scope WAVE and do not look at EXEC, except where a branch asks for it.

    branch              Control.BRANCH, to the instruction's label where `condition` is 1
    call by label       the same, and the return address (`pc`) in the printed register
    jump                Control.JUMP, to the address in Result pc; `s_swappc` also writes the return address
    wait                Control.WAIT: results are there at once where time does not count
    hint                Control.HINT: changes speed only
    barrier 0           no barrier: a hint (so AMD's pseudocode)
    trap                Control.TRAP: reached only by a kernel that gave up; `s_code_end` is no code at all

Exits that nobody here can follow are refused by name: named and cluster barriers, `s_barrier_leave`, messages
that ask for something other than the time, `s_sethalt 1`, `s_setkill`, VGPR allocation and bank switching,
return from exception, fork and join, vector skip, and registers indexed by M0 or by GPR index mode.
"""

from __future__ import annotations

from collections.abc import Callable

from asmevo.program.decode import DecodingContext
from asmevo.program.instruction import Decoded
from asmevo.semantics.building import constant
from asmevo.semantics.expression import (
    Control,
    Exactness,
    Expr,
    Implicit,
    Meaning,
    Result,
    Scope,
    Source,
)
from asmevo.semantics.hardware_registers import mode_change, read_register, write_register
from asmevo.semantics.moves import unsupported
from asmevo.semantics.operands import UnsupportedOperandError, op, raw, resize

_SOURCE = "written: control"
_PC_BITS = 64
_ALWAYS = constant(1, 1)
_NEVER = constant(1, 0)
_ROUND_OFFSET, _DENORM_OFFSET, _MODE_FIELD = 0, 4, 4

_HINTS = frozenset({
    "s_nop", "s_delay_alu", "s_clause", "s_setprio", "s_setprio_inc_wg", "s_sleep", "s_sleep_var", "s_monitor_sleep",
    "s_inst_prefetch", "s_set_inst_prefetch_distance", "s_icache_inv", "s_wakeup", "s_incperflevel",
    "s_decperflevel", "s_ttracedata", "s_ttracedata_imm", "s_version",
})  # fmt: skip

_ENDS = frozenset({"s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})

_REFUSED = {
    "s_setkill": "killing a wave from inside is not modelled",
    "s_sendmsghalt": "a halted wave cannot be followed",
    "s_alloc_vgpr": "dynamic VGPRs are not modelled",
    "s_get_waveid_in_workgroup": "the wave's number is not modelled",
    "s_setvskip": "vector skip is not modelled",
    "s_barrier_leave": "leaving a barrier is not modelled",
    "s_barrier_init": "named barriers are not modelled",
    "s_barrier_join": "named barriers are not modelled",
    "s_barrier_signal_isfirst": "which wave comes first is not modelled",
    "s_get_barrier_state": "the state of a barrier is not modelled",
    "s_rfe_b64": "return from a trap handler",
    "s_rfe_i64": "return from a trap handler",
    "s_rfe_restore_b64": "return from a trap handler",
    "s_cbranch_g_fork": "fork and join are not modelled",
    "s_cbranch_i_fork": "fork and join are not modelled",
    "s_cbranch_join": "fork and join are not modelled",
    "s_subvector_loop_begin": "subvector loops are not modelled",
    "s_subvector_loop_end": "subvector loops are not modelled",
}
_INDEXED = ("indexed_def", "indexed_use")


def meaning(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    """The meaning of a control instruction; None for all others."""
    try:
        return _meaning(decoded, context)
    except UnsupportedOperandError as error:
        return unsupported(decoded, str(error))


def _meaning(decoded: Decoded, context: DecodingContext) -> Meaning | None:
    name = decoded.mnemonic
    if any(flag in decoded.flags for flag in _INDEXED) or name.startswith("s_set_gpr_idx"):
        return unsupported(decoded, "registers indexed at run time are not modelled")
    if name in _REFUSED:
        return unsupported(decoded, _REFUSED[name])
    if name in _HINTS:
        return _plain(Control.HINT)
    if name in _ENDS:
        return _plain(Control.END)
    if name.startswith("s_wait"):
        return _plain(Control.WAIT)
    if name in _WRITTEN:
        return _WRITTEN[name](decoded)
    if name == "s_branch" or name.startswith("s_cbranch_"):
        return _branch(decoded, context)
    return None


def _plain(control: Control) -> Meaning:
    return Meaning(Scope.WAVE, control=control, ignores_exec=True, source=_SOURCE)


# --- branches and jumps -------------------------------------------------------------------------------------


def _is_zero(value: Expr) -> Expr:
    return op("eq", 1, value, constant(value.bits, 0))


def _is_not_zero(value: Expr) -> Expr:
    return op("ne", 1, value, constant(value.bits, 0))


def _branch(decoded: Decoded, context: DecodingContext) -> Meaning:
    scc, wave = Implicit(1, "scc"), context.wave_size
    conditions: dict[str, Expr] = {
        "s_branch": _ALWAYS,
        "s_cbranch_scc0": op("not", 1, scc),
        "s_cbranch_scc1": scc,
        "s_cbranch_vccz": _is_zero(Implicit(wave, "vcc")),
        "s_cbranch_vccnz": _is_not_zero(Implicit(wave, "vcc")),
        "s_cbranch_execz": _is_zero(Implicit(wave, "exec")),
        "s_cbranch_execnz": _is_not_zero(Implicit(wave, "exec")),
    }
    condition = conditions.get(decoded.mnemonic)
    exactness = Exactness.EXACT
    if condition is None:  # s_cbranch_cdbg*: bits that only a debugger sets
        condition, exactness = _NEVER, Exactness.APPROXIMATE
    return Meaning(
        Scope.WAVE,
        control=Control.BRANCH,
        condition=condition,
        ignores_exec=True,
        exactness=exactness,
        source=_SOURCE,
    )


def _pc() -> Expr:
    return Implicit(_PC_BITS, "pc")


def _call(_: Decoded) -> Meaning:
    results = (Result("operand", _pc()),)
    return Meaning(Scope.WAVE, results, control=Control.BRANCH, condition=_ALWAYS, ignores_exec=True, source=_SOURCE)


def _jump(*results: Result) -> Meaning:
    return Meaning(Scope.WAVE, results, control=Control.JUMP, ignores_exec=True, source=_SOURCE)


def _set_pc(_: Decoded) -> Meaning:
    return _jump(Result("pc", Source(_PC_BITS, 0)))


def _swap_pc(_: Decoded) -> Meaning:
    return _jump(Result("operand", _pc()), Result("pc", Source(_PC_BITS, 1)))


def _add_pc(decoded: Decoded) -> Meaning:
    return _jump(Result("pc", op("add", _PC_BITS, _pc(), raw(decoded, 0, _PC_BITS))))


def _get_pc(_: Decoded) -> Meaning:
    return _value(_pc())


def _get_cycles(_: Decoded) -> Meaning:
    return _value(Implicit(64, "clock"))


def _value(value: Expr) -> Meaning:
    return Meaning(Scope.WAVE, (Result("operand", value),), ignores_exec=True, source=_SOURCE)


# --- barriers, messages, traps ------------------------------------------------------------------------------


def _barrier(_: Decoded) -> Meaning:
    return _plain(Control.BARRIER)


def _barrier_number(decoded: Decoded) -> int | None:
    """-1 for the workgroup's own barrier, 0 for none at all; None where a register says which."""
    operand = decoded.operands[0]
    if not operand.is_literal:
        return None
    number = int(operand.text, 0)
    return number - (1 << 16) if number >> 15 == 1 else number


def _split_barrier(decoded: Decoded, control: Control) -> Meaning:
    number = _barrier_number(decoded)
    if number == 0:
        return _plain(Control.HINT)
    if number != -1:
        return unsupported(decoded, "only the workgroup's own barrier (-1) is modelled")
    return _plain(control)


def _barrier_signal(decoded: Decoded) -> Meaning:
    return _split_barrier(decoded, Control.BARRIER_SIGNAL)


def _barrier_wait(decoded: Decoded) -> Meaning:
    return _split_barrier(decoded, Control.BARRIER_WAIT)


def _message(_: Decoded) -> Meaning:
    return _plain(Control.MESSAGE)


def _message_with_answer(decoded: Decoded) -> Meaning:
    if "GET_REALTIME" not in decoded.operands[1].text:
        return unsupported(decoded, "nobody answers this message")
    return _value(resize(Implicit(64, "clock"), 32 if decoded.mnemonic.endswith("_b32") else 64))


def _trap(_: Decoded) -> Meaning:
    return _plain(Control.TRAP)


def _set_halt(decoded: Decoded) -> Meaning:
    if int(decoded.operands[0].text, 0) & 1:
        return unsupported(decoded, "a halted wave cannot be followed")
    return _plain(Control.HINT)


# --- mode ---------------------------------------------------------------------------------------------------


def _mode_field(decoded: Decoded, offset: int) -> Meaning:
    return mode_change(constant(_MODE_FIELD, int(decoded.operands[0].text, 0)), offset)


def _round_mode(decoded: Decoded) -> Meaning:
    return _mode_field(decoded, _ROUND_OFFSET)


def _denorm_mode(decoded: Decoded) -> Meaning:
    return _mode_field(decoded, _DENORM_OFFSET)


def _vgpr_banks(decoded: Decoded) -> Meaning:
    if int(decoded.operands[0].text, 0):
        return unsupported(decoded, "VGPR numbers above 255 are not modelled")
    return _plain(Control.HINT)


_WRITTEN: dict[str, Callable[[Decoded], Meaning]] = {
    "s_call_b64": _call,
    "s_call_i64": _call,
    "s_setpc_b64": _set_pc,
    "s_set_pc_i64": _set_pc,
    "s_swappc_b64": _swap_pc,
    "s_swap_pc_i64": _swap_pc,
    "s_add_pc_i64": _add_pc,
    "s_getpc_b64": _get_pc,
    "s_get_pc_i64": _get_pc,
    "s_get_shader_cycles_u64": _get_cycles,
    "s_barrier": _barrier,
    "s_barrier_signal": _barrier_signal,
    "s_barrier_wait": _barrier_wait,
    "s_sendmsg": _message,
    "s_sendmsg_rtn_b32": _message_with_answer,
    "s_sendmsg_rtn_b64": _message_with_answer,
    "s_trap": _trap,
    "s_code_end": _trap,
    "s_sethalt": _set_halt,
    "s_setreg_b32": write_register,
    "s_setreg_imm32_b32": write_register,
    "s_getreg_b32": read_register,
    "s_round_mode": _round_mode,
    "s_denorm_mode": _denorm_mode,
    "s_set_vgpr_msb": _vgpr_banks,
}
