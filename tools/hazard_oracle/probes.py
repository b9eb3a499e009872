"""Small hazard probes in LLVM's machine IR: two to four instructions, the last of which may come too early.

A probe is a name and instructions; `PROBES` lists for which targets each makes sense. `registers(4, 2)` is
`$vgpr4_vgpr5`.
"""

from __future__ import annotations

from msgspec import Struct

GFX9 = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1250")
MFMA = ("gfx90a", "gfx942", "gfx950")


class Probe(Struct, frozen=True):
    """`wave64`: on targets that have both, run with waves of 64."""

    name: str
    targets: tuple[str, ...]
    lines: tuple[str, ...]
    wave64: bool = False


def registers(first: int, count: int = 1, letter: str = "vgpr") -> str:
    return "$" + "_".join(f"{letter}{number}" for number in range(first, first + count))


_EXEC = ", implicit $exec"
_MODE = ", implicit $mode, implicit $exec"


def mov(to: int, source: int = 200) -> str:
    return f"{registers(to)} = V_MOV_B32_e32 {registers(source)}{_EXEC}"


def add(to: int, first: str, second: int = 201) -> str:
    return f"{registers(to)} = V_ADD_F32_e32 {first}, {registers(second)}{_MODE}"


def store(data: int, address: int = 210) -> str:
    return f"GLOBAL_STORE_DWORD {registers(address, 2)}, {registers(data)}, 0, 0{_EXEC}"


def load(to: int, address: int = 210) -> str:
    return f"{registers(to)} = GLOBAL_LOAD_DWORD {registers(address, 2)}, 0, 0{_EXEC}"


def swap(first: int, second: int) -> str:
    both = f"{registers(first)}, {registers(second)}"
    return f"{both} = V_PERMLANE32_SWAP_B32_e32 {both}{_EXEC}"


_DIV_FMAS_SOURCES = f"0, {registers(1)}, 0, {registers(2)}, 0, {registers(4)}, 0, 0"
_DIV_FMAS = f"{registers(3)} = V_DIV_FMAS_F32_e64 {_DIV_FMAS_SOURCES}, implicit $mode, implicit $vcc{_EXEC}"
_FMA64_SOURCES = f"0, {registers(62, 2)}, 0, {registers(64, 2)}, 0, {registers(66, 2)}, 0, 0"
_FMA64 = f"{registers(60, 2)} = V_FMA_F64_e64 {_FMA64_SOURCES}{_MODE}"
_PERMLANE_SOURCES = f"0, {registers(4)}, 0, $sgpr0, 0, $sgpr1, {registers(3)}, 0"
_PERMLANE = f"{registers(3)} = V_PERMLANE16_B32_e64 {_PERMLANE_SOURCES}{_EXEC}"
_FIRST_LANE = f"$sgpr8 = V_READFIRSTLANE_B32 {registers(0)}{_EXEC}"
_COMPARE = f"V_CMP_EQ_U32_e32 {registers(0)}, {registers(1)}, implicit-def $vcc{_EXEC}"
_CMPX = f"V_CMPX_EQ_U32_e32 {registers(0)}, {registers(1)}, implicit-def $vcc, implicit-def $exec{_EXEC}"
_CMPX_NOSDST = f"V_CMPX_EQ_U32_nosdst_e32 {registers(0)}, {registers(1)}, implicit-def $exec{_EXEC}"
_SELECT = f"{registers(3)} = V_CNDMASK_B32_e32 {registers(1)}, {registers(2)}, implicit $vcc{_EXEC}"
_RESOURCE = registers(8, 4, "sgpr")
_RCP = f"{registers(1)} = V_RCP_F32_e32 {registers(0)}{_MODE}"
_M0 = "$m0 = S_MOV_B32 0"
_MODE_FIELD = 6145

GENERAL = (
    Probe(
        "sgpr-buffer",
        GFX9,
        (
            _FIRST_LANE,
            f"{registers(4)} = BUFFER_LOAD_DWORD_OFFEN {registers(5)}, {_RESOURCE}, 0, 0, 0, 0{_EXEC}",
        ),
    ),
    Probe(
        "sgpr-saddr",
        GFX9[1:],
        (_FIRST_LANE, f"{registers(4)} = GLOBAL_LOAD_DWORD_SADDR $sgpr8_sgpr9, {registers(5)}, 0, 0{_EXEC}"),
    ),
    Probe(
        "vgpr-dpp",
        GFX9,
        (mov(2), f"{registers(3)} = V_MOV_B32_dpp {registers(3)}, {registers(2)}, 0, 15, 15, 0{_EXEC}"),
    ),
    Probe(
        "exec-dpp",
        GFX9,
        (_CMPX, f"{registers(3)} = V_MOV_B32_dpp {registers(3)}, {registers(2)}, 0, 15, 15, 0{_EXEC}"),
    ),
    Probe(
        "vcc-div-fmas",
        GFX9,
        (
            _COMPARE,
            _DIV_FMAS,
        ),
    ),
    Probe(
        "setreg-getreg",
        GFX9,
        (
            f"S_SETREG_B32 $sgpr0, {_MODE_FIELD}, implicit-def $mode, implicit $mode",
            f"$sgpr1 = S_GETREG_B32 {_MODE_FIELD}, implicit $mode",
        ),
    ),
    Probe(
        "setreg-setreg",
        GFX9,
        (
            f"S_SETREG_B32 $sgpr0, {_MODE_FIELD}, implicit-def $mode, implicit $mode",
            f"S_SETREG_B32 $sgpr1, {_MODE_FIELD}, implicit-def $mode, implicit $mode",
        ),
    ),
    Probe(
        "setreg-other",
        GFX9,
        (
            f"S_SETREG_B32 $sgpr0, {_MODE_FIELD}, implicit-def $mode, implicit $mode",
            "$sgpr1 = S_GETREG_B32 6146, implicit $mode",
        ),
    ),
    Probe(
        "buffer-store-overwrite",
        GFX9,
        (f"BUFFER_STORE_DWORDX4_OFFSET {registers(0, 4)}, {_RESOURCE}, 0, 0, 0, 0{_EXEC}", mov(1)),
    ),
    Probe(
        "buffer-store-soffset",
        GFX9,
        (f"BUFFER_STORE_DWORDX4_OFFSET {registers(0, 4)}, {_RESOURCE}, $sgpr4, 0, 0, 0{_EXEC}", mov(1)),
    ),
    Probe(
        "buffer-store-narrow",
        GFX9,
        (f"BUFFER_STORE_DWORDX2_OFFSET {registers(0, 2)}, {_RESOURCE}, 0, 0, 0, 0{_EXEC}", mov(1)),
    ),
    Probe(
        "global-store-overwrite",
        GFX9[1:],
        (f"GLOBAL_STORE_DWORDX4 {registers(10, 2)}, {registers(0, 4)}, 0, 0{_EXEC}", mov(3)),
    ),
    Probe(
        "global-store-one-between",
        GFX9[1:],
        (
            f"GLOBAL_STORE_DWORDX3 {registers(10, 2)}, {registers(0, 3)}, 0, 0{_EXEC}",
            "$sgpr0 = S_MOV_B32 0",
            mov(2),
        ),
    ),
    Probe("lane-select", GFX9, (_FIRST_LANE, f"$sgpr5 = V_READLANE_B32 {registers(1)}, $sgpr8")),
    Probe("m0-sendmsg", GFX9, (_M0, "S_SENDMSG 3, implicit $exec, implicit $m0")),
    Probe("m0-movrel", GFX9, (_M0, "$sgpr0 = S_MOVRELS_B32 $sgpr0, implicit $m0")),
    Probe(
        "m0-lds-dma",
        GFX9[:6],
        (_M0, f"BUFFER_LOAD_DWORD_LDS_OFFEN {registers(0)}, {_RESOURCE}, 0, 0, 0, 0{_EXEC}, implicit $m0"),
    ),
    Probe("trans-use", (*GFX9, *RDNA), (_RCP, add(2, registers(1)))),
    Probe("trans-trans", (*GFX9, *RDNA), (_RCP, f"{registers(2)} = V_RCP_F32_e32 {registers(1)}{_MODE}")),
    Probe("trans-use-far", (*GFX9, *RDNA), (_RCP, *(mov(20 + n) for n in range(6)), add(2, registers(1)))),
    Probe("trans-use-five-between", RDNA, (_RCP, *(mov(20 + n) for n in range(5)), add(2, registers(1)))),
    Probe("sgpr-valu", GFX9, (_FIRST_LANE, add(2, "$sgpr8"))),
    Probe("vcc-valu", GFX9, (_COMPARE, _SELECT)),
    Probe("vcc-valu-one-between", GFX9, (_COMPARE, "$sgpr0 = S_MOV_B32 0", _SELECT)),
    Probe("exec-readlane", GFX9, (_CMPX, f"$sgpr5 = V_READLANE_B32 {registers(9)}, 0")),
    Probe("exec-writelane", GFX9, (_CMPX, f"{registers(9)} = V_WRITELANE_B32 0, 0, {registers(9)}")),
    Probe("vgpr-readlane", GFX9, (mov(1), f"$sgpr5 = V_READLANE_B32 {registers(1)}, 0")),
    Probe("vgpr-readfirstlane", GFX9, (mov(1), f"$sgpr5 = V_READFIRSTLANE_B32 {registers(1)}{_EXEC}")),
    Probe(
        "permlane-swap",
        ("gfx950",),
        (
            mov(1),
            swap(1, 4),
        ),
    ),
    Probe(
        "permlane-swap-other",
        ("gfx950",),
        (
            mov(1),
            swap(3, 4),
        ),
    ),
    Probe(
        "exec-permlane-swap",
        ("gfx950",),
        (
            _CMPX,
            swap(5, 4),
        ),
    ),
    Probe("independent", (*GFX9, *RDNA), (mov(1), mov(2, 3))),
)

RDNA_PATTERNS = (
    Probe(
        "cmpx-permlane",
        RDNA,
        (
            _CMPX_NOSDST,
            _PERMLANE,
        ),
    ),
    Probe(
        "cmpx-mov-permlane",
        RDNA,
        (
            _CMPX_NOSDST,
            mov(9),
            _PERMLANE,
        ),
    ),
    Probe(
        "vmem-salu-write",
        RDNA[:2],
        (
            f"{registers(4)} = GLOBAL_LOAD_DWORD_SADDR $sgpr8_sgpr9, {registers(5)}, 0, 0{_EXEC}",
            "$sgpr8 = S_MOV_B32 0",
        ),
    ),
    Probe(
        "vmem-valu-salu-write",
        RDNA[:2],
        (
            f"{registers(4)} = GLOBAL_LOAD_DWORD_SADDR $sgpr8_sgpr9, {registers(5)}, 0, 0{_EXEC}",
            mov(9),
            "$sgpr8 = S_MOV_B32 0",
        ),
    ),
    Probe(
        "vmem-exec-write",
        RDNA[:2],
        (
            f"{registers(4)} = GLOBAL_LOAD_DWORD_SADDR $sgpr8_sgpr9, {registers(5)}, 0, 0{_EXEC}",
            "$exec_lo = S_MOV_B32 -1",
        ),
    ),
    Probe(
        "vmem-wait-salu-write",
        RDNA[:2],
        (
            f"{registers(4)} = GLOBAL_LOAD_DWORD_SADDR $sgpr8_sgpr9, {registers(5)}, 0, 0{_EXEC}",
            "S_WAITCNT 0",
            "$sgpr8 = S_MOV_B32 0",
        ),
    ),
    Probe("smem-valu-write", RDNA[:2], ("$sgpr0 = S_LOAD_DWORD_IMM $sgpr8_sgpr9, 0, 0", _FIRST_LANE)),
    Probe(
        "smem-salu-valu-write",
        RDNA[:2],
        ("$sgpr0 = S_LOAD_DWORD_IMM $sgpr8_sgpr9, 0, 0", "$sgpr20 = S_MOV_B32 0", _FIRST_LANE),
    ),
    Probe(
        "smem-nop-valu-write",
        RDNA[:2],
        ("$sgpr0 = S_LOAD_DWORD_IMM $sgpr8_sgpr9, 0, 0", "S_NOP 0", _FIRST_LANE),
    ),
    Probe("exec-read-cmpx", RDNA[:2], ("$sgpr0 = S_MOV_B32 $exec_lo", _CMPX_NOSDST)),
    Probe(
        "exec-read-cmp-cmpx",
        RDNA[:2],
        (
            "$sgpr0 = S_MOV_B32 $exec_lo",
            f"$sgpr30 = V_CMP_EQ_U32_e64 {registers(0)}, {registers(1)}{_EXEC}",
            _CMPX_NOSDST,
        ),
    ),
    Probe("exec-read-mov-cmpx", RDNA[:2], ("$sgpr0 = S_MOV_B32 $exec_lo", mov(9), _CMPX_NOSDST)),
    Probe(
        "mask-salu-write",
        ("gfx1100", "gfx1151"),
        (
            f"{registers(3)} = V_CNDMASK_B32_e64 0, {registers(1)}, 0, {registers(2)}, $sgpr0_sgpr1{_EXEC}",
            "$sgpr0 = S_MOV_B32 0",
            "$sgpr2 = S_MOV_B32 $sgpr0",
        ),
        wave64=True,
    ),
    Probe(
        "partial-forwarding",
        ("gfx1100", "gfx1151"),
        (mov(1), "$exec = S_MOV_B64 -1", mov(2), add(3, registers(1), 2)),
        wave64=True,
    ),
    Probe(
        "partial-forwarding-no-exec",
        ("gfx1100", "gfx1151"),
        (mov(1), "$sgpr0_sgpr1 = S_MOV_B64 -1", mov(2), add(3, registers(1), 2)),
        wave64=True,
    ),
    Probe(
        "partial-forwarding-three-around",
        ("gfx1100", "gfx1151"),
        (mov(1), mov(11), mov(12), "$exec = S_MOV_B64 -1", mov(13), mov(2), add(3, registers(1), 2)),
        wave64=True,
    ),
    Probe(
        "partial-forwarding-two-around",
        ("gfx1100", "gfx1151"),
        (mov(1), mov(11), "$exec = S_MOV_B64 -1", mov(13), mov(2), add(3, registers(1), 2)),
        wave64=True,
    ),
    Probe(
        "partial-forwarding-four-before-use",
        ("gfx1100", "gfx1151"),
        (mov(1), "$exec = S_MOV_B64 -1", mov(2), mov(11), mov(12), mov(13), mov(14), add(3, registers(1), 2)),
        wave64=True,
    ),
    Probe(
        "partial-forwarding-five-before-use",
        ("gfx1100", "gfx1151"),
        (
            mov(1),
            "$exec = S_MOV_B64 -1",
            mov(2),
            mov(11),
            mov(12),
            mov(13),
            mov(14),
            mov(15),
            add(3, registers(1), 2),
        ),
        wave64=True,
    ),
)

# mnemonic part, targets, registers of A, B and D
_MATRIX = (
    ("F32_4X4X4F16", MFMA, 2, 4),
    ("F32_16X16X16F16", MFMA, 2, 4),
    ("F32_32X32X8F16", MFMA, 2, 16),
    ("F32_32X32X4F16", MFMA, 2, 32),
    ("F32_16X16X4F32", MFMA, 1, 4),
    ("F32_32X32X2F32", MFMA, 1, 16),
    ("F64_16X16X4F64", MFMA, 2, 8),
    ("F64_4X4X4F64", MFMA, 2, 2),
    ("F32_16X16X32_F16", MFMA[2:], 4, 4),
    ("F32_32X32X16_F16", MFMA[2:], 4, 16),
)


def _mfma(shape: str, width: int, size: int, to: int, first: int, accumulator: int) -> str:
    a, b = registers(first, width), registers(124, width)
    c = registers(accumulator, size)
    return f"{registers(to, size)} = V_MFMA_{shape}_vgprcd_e64 {a}, {b}, {c}, 0, 0, 0{_MODE}"


def _matrix_probes() -> list[Probe]:
    found = []
    for shape, targets, width, size in _MATRIX:
        first = _mfma(shape, width, size, 0, 120, 40)
        consumers = {
            "valu-read": add(80, registers(0)),
            "store": store(0),
            "valu-overwrite": mov(1),
            "load-overwrite": load(1),
            "src-a": _mfma(shape, width, size, 80, 0, 40),
            "src-c-same": _mfma(shape, width, size, 80, 120, 0),
            "src-c-partial": _mfma("F32_4X4X4F16", 2, 4, 80, 120, 0 if size != 4 else 2),
            "src-c-partial-f32": _mfma("F32_16X16X4F32", 1, 4, 80, 120, 0 if size != 4 else 2),
            "src-c-partial-f64": _mfma("F64_4X4X4F64", 2, 2, 80, 120, 0),
            "src-c-overwrite": mov(40),
        }
        found += [Probe(f"mfma-{shape}-{n}", targets, (first, line)) for n, line in consumers.items()]
    mfma = _mfma("F32_16X16X16F16", 2, 4, 0, 120, 40)
    found += [
        Probe("valu-mfma-a", MFMA, (mov(120), mfma)),
        Probe("valu-mfma-c", MFMA, (mov(40), mfma)),
        Probe("exec-mfma", MFMA, (_CMPX, mfma)),
        Probe(
            "dgemm-fma64",
            MFMA,
            (
                _mfma("F64_16X16X4F64", 2, 8, 0, 120, 40),
                _FMA64,
            ),
        ),
        Probe("dgemm-between", MFMA[:2], (mov(90), _mfma("F64_16X16X4F64", 2, 8, 0, 120, 40), store(90))),
        Probe("dot-valu", MFMA, (_dot("DOT4_I32_I8", 0, 1, 2, 3), add(9, registers(0)))),
        Probe("dot-overwrite", MFMA, (_dot("DOT4_I32_I8", 0, 1, 2, 3), mov(0))),
        Probe("dot-same-a", MFMA, (_dot("DOT4_I32_I8", 0, 1, 2, 3), _dot("DOT4_I32_I8", 9, 0, 2, 3))),
        Probe("dot-same-c", MFMA, (_dot("DOT4_I32_I8", 0, 1, 2, 3), _dot("DOT4_I32_I8", 9, 1, 2, 0))),
        Probe("dot-other-c", MFMA, (_dot("DOT4_I32_I8", 0, 1, 2, 3), _dot("DOT8_I32_I4", 9, 1, 2, 0))),
        Probe("dot-store", MFMA, (_dot("DOT4_I32_I8", 0, 1, 2, 3), store(0))),
        Probe("dot-mfma", MFMA, (_dot("DOT4_I32_I8", 120, 1, 2, 3), mfma)),
    ]
    return found


def _dot(kind: str, to: int, a: int, b: int, c: int) -> str:
    sources = f"8, {registers(a)}, 8, {registers(b)}, 8, {registers(c)}"
    return f"{registers(to)} = V_{kind} {sources}, 0, 0, 0{_EXEC}"


def _acc_probes() -> list[Probe]:
    target = ("gfx908",)
    write = f"{registers(0, letter='agpr')} = V_ACCVGPR_WRITE_B32_e64 {registers(9)}{_EXEC}"
    write_c = f"{registers(40, letter='agpr')} = V_ACCVGPR_WRITE_B32_e64 {registers(9)}{_EXEC}"
    read = f"{registers(9)} = V_ACCVGPR_READ_B32_e64 {registers(0, letter='agpr')}{_EXEC}"
    found = [
        Probe("acc-write-read", target, (write, read)),
        Probe("acc-read-store", target, (read, store(9))),
        Probe("valu-acc-read-store", target, (mov(30), read, store(30))),
        Probe("valu-acc-write", target, (mov(9), write)),
    ]
    for shape, size in (("4X4X4F16", 4), ("16X16X16F16", 4), ("32X32X8F16", 16)):

        def op(to: int, accumulator: int, shape: str = shape, size: int = size) -> str:
            d, c = registers(to, size, "agpr"), registers(accumulator, size, "agpr")
            return f"{d} = V_MFMA_F32_{shape}_e64 {registers(10, 2)}, {registers(12, 2)}, {c}, 0, 0, 0{_MODE}"

        found += [
            Probe(f"acc-{shape}-read", target, (op(0, 40), read)),
            Probe(f"acc-{shape}-write", target, (op(0, 40), write)),
            Probe(f"acc-{shape}-src-c-overwrite", target, (op(0, 40), write_c)),
            Probe(f"acc-{shape}-src-c-same", target, (op(0, 40), op(80, 0))),
            Probe(f"acc-{shape}-src-c-partial", target, (op(0, 40), op(80, 2))),
            Probe(f"acc-write-{shape}-src-c", target, (write_c, op(0, 40))),
        ]
    return found


def _wmma_probes() -> list[Probe]:
    def wmma(to: int, a: int, c: int, name: str, width: int, more: str = "") -> str:
        size = 8
        text = f"8, {registers(a, width)}, 8, {registers(60, width)}, 8, {registers(c, size)}"
        return f"early-clobber {registers(to, size)} = {name} {text}, 0, 0{more}{_EXEC}"

    found = []
    for target, name, width in (
        ("gfx1100", "V_WMMA_F32_16X16X16_F16_twoaddr_w32", 8),
        ("gfx1200", "V_WMMA_F32_16X16X16_F16_w32_twoaddr", 4),
    ):
        first = wmma(0, 40, 0, name, width)
        second = wmma(16, 0, 16, name, width)
        found += [
            Probe("wmma-src-a", (target,), (first, second)),
            Probe("wmma-src-a-apart", (target,), (first, mov(90), second)),
            Probe("wmma-chain", (target,), (first, first)),
        ]
    return found + _coexecution_probes()


def _coexecution_probes() -> list[Probe]:
    target = ("gfx1250",)

    def wmma(to: int, a: int, c: int) -> str:
        sources = f"8, {registers(a, 8)}, 8, {registers(60, 8)}, 8, {registers(c, 8)}"
        opcode = "V_WMMA_F32_16X16X32_F16_w32_twoaddr"
        return f"early-clobber {registers(to, 8)} = {opcode} {sources}, 0, 0, 0, 0{_EXEC}"

    first, nops = wmma(0, 20, 0), [mov(90 + place) for place in range(4)]
    return [
        Probe("coexecution-src-a", target, (first, wmma(40, 0, 40))),
        Probe("coexecution-valu-read", target, (first, add(90, registers(0)))),
        Probe("coexecution-valu-overwrite", target, (first, mov(1))),
        Probe("coexecution-src-a-overwrite", target, (first, mov(20))),
        Probe("coexecution-four-between", target, (first, *nops, mov(1))),
        Probe("coexecution-four-before-src-a", target, (first, *nops, wmma(40, 0, 40))),
    ]


def _scalar_read_probes() -> list[Probe]:
    """VALUReadSGPR: VALU reads an SGPR, it is rewritten, and read again."""
    gpus = ("gfx1100", "gfx1200")
    read, again = add(2, "$sgpr4"), add(3, "$sgpr4")
    salu = "$sgpr4 = S_MOV_B32 $sgpr20"
    compare = f"$sgpr4 = V_CMP_EQ_U32_e64 {registers(0)}, {registers(1)}{_EXEC}"
    select = f"{registers(3)} = V_CNDMASK_B32_e64 0, {registers(1)}, 0, {registers(2)}, $sgpr4{_EXEC}"
    use = "$sgpr22 = S_MOV_B32 $sgpr4"
    idle = tuple(f"$sgpr{30 + n} = S_MOV_B32 0" for n in range(20))
    memory = "$sgpr8 = S_LOAD_DWORD_IMM $sgpr10_sgpr11, 0, 0"
    sequences = {
        "salu": (read, salu, again),
        "salu-unread": (salu, again),
        "salu-other-half": (add(2, "$sgpr5"), salu, again),
        "salu-other-pair": (add(2, "$sgpr6"), salu, again),
        "salu-salu": (read, salu, use),
        "salu-idle": (read, salu, *idle, again),
        "salu-memory": (read, salu, memory, again),
        "salu-nop": (read, salu, "S_NOP 7", again),
        "valu": (read, compare, select),
        "valu-unread": (compare, select),
        "valu-salu": (read, compare, use),
        "valu-salu-valu": (read, compare, use, select),
        "valu-untracked-salu-valu": (read, compare, "$sgpr22 = S_MOV_B32 $sgpr20", select),
    }
    return [Probe(f"scalar-read-{name}", gpus, lines) for name, lines in sequences.items()]


PROBES: tuple[Probe, ...] = (
    *GENERAL,
    *RDNA_PATTERNS,
    *_matrix_probes(),
    *_acc_probes(),
    *_wmma_probes(),
    *_scalar_read_probes(),
)
