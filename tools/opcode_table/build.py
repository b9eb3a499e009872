"""Builds src/asmevo/target/data/opcodes.json from LLVM's own AMDGPU instruction tables. For developers only.

Needs g++ and LLVM's development files (Debian: llvm-22-dev); the package itself needs neither.

    python tools/opcode_table/build.py                      # llvm-config-22 from PATH
    python tools/opcode_table/build.py --llvm-config PATH   # another LLVM
    python tools/opcode_table/build.py --check              # writes nothing; exit 1 if out of date

How it works. dump.cpp prints each opcode's MCInstrDesc. For each processor of a family it also makes a
synthetic instruction of each opcode, with a different register in each register operand, prints it, encodes
it and decodes it again. What decodes to the same opcode is what that processor has; nothing is read out of
LLVM's name suffixes. The printed text says at which place an operand is printed, and so which printed
operands are written, and which of them are read as well although printed once (tied or hidden inputs).

Real (encodable) opcodes lose some facts that their pseudo opcodes state (side effects, and that DS needs no
M0 from gfx9 on); for these the pseudo of the same name is asked. What neither says is in
opcode_supplement.yaml, which is applied here, row by row, and every row must change something.

Form of the file (schema asmevo.opcodes/1):
    strings     all strings used below
    signatures  [encoding, defs, [tied], [implicit reads], [implicit writes], [flags], [widths]];
                strings by index
    families    family -> {mnemonic: signature index, or a list of them}
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "src" / "asmevo" / "target" / "data"
SCHEMA = "asmevo.opcodes/1"

# The processors a family's opcodes are asked from. Both wave sizes: VOPD and some DPP forms are wave32 only.
CHIPS: dict[str, tuple[str, ...]] = {
    "gfx8": ("gfx803", "gfx810"),
    "gfx9": ("gfx900", "gfx906", "gfx908"),
    "gfx90a": ("gfx90a",),
    "gfx940": ("gfx942", "gfx950"),
    "gfx10": tuple(
        f"{chip}+wavefrontsize{size}" for chip in ("gfx1010", "gfx1012", "gfx1013", "gfx1030") for size in (32, 64)
    ),
    "gfx11": tuple(f"{chip}+wavefrontsize{size}" for chip in ("gfx1100", "gfx1151") for size in (32, 64)),
    "gfx12": tuple(f"gfx1200+wavefrontsize{size}{half}" for size in (32, 64) for half in ("", ",+real-true16")),
    "gfx1250": ("gfx1250", "gfx1251", "gfx1250+real-true16"),
}

# llvm/lib/Target/AMDGPU/SIDefines.h, SIInstrFlags; tests/target/test_opcodes.py checks them on known opcodes.
FORMAT_BITS = (
    (2, "SOP1"), (3, "SOP2"), (4, "SOPC"), (5, "SOPK"), (6, "SOPP"), (29, "VINTERP"), (12, "VOP3P"),
    (54, "VOP3P"), (10, "VOP3"), (7, "VOP1"), (8, "VOP2"), (9, "VOPC"), (13, "VINTRP"), (17, "MUBUF"),
    (18, "MTBUF"), (19, "SMEM"), (20, "MIMG"), (21, "VIMAGE"), (22, "VSAMPLE"), (23, "EXP"),
    (51, "GLOBAL"), (56, "SCRATCH"), (24, "FLAT"), (25, "DS"), (28, "LDSDIR"),
)  # fmt: skip
FLAG_BITS = {
    0: "salu", 1: "valu", 14: "sdwa", 15: "dpp", 16: "trans", 19: "smem", 23: "exp", 25: "ds", 28: "ldsdir",
    29: "vinterp", 32: "vm_cnt", 33: "exp_cnt", 34: "lgkm_cnt", 37: "gather4", 38: "tensor_cnt",
    39: "scalar_store", 41: "async_cnt", 42: "op_sel",
    49: "packed", 50: "d16", 52: "fp_dp_rounding", 53: "fp_atomic", 54: "mai", 55: "dot",
    57: "atomic_noret", 58: "atomic_ret", 59: "wmma", 62: "gds", 63: "swmmac",
}  # fmt: skip
VMEM = {"MUBUF", "MTBUF", "MIMG", "VIMAGE", "VSAMPLE", "FLAT", "GLOBAL", "SCRATCH"}
SUFFIX = re.compile(r"_(vi|si|ci|gfx[0-9][0-9a-z]*|acd|vcd|alt|format|opsel|agpr|VE|nsa)$")
REGISTER = re.compile(r"\b(?:v|a|s|ttmp)(?:\d+(?:\.[lh])?|\[\d+:\d+\])")
LANE_MASK = 1  # a width that is the wave size


class Signature(Struct, frozen=True):
    """One row of the table; the same fields as asmevo.target.opcodes.OpcodeInfo without the mnemonic."""

    encoding: str
    defs: int
    tied: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    flags: frozenset[str]
    widths: tuple[int, ...]


Table = dict[str, dict[str, list[Signature]]]


class Dump(Struct):
    ops: dict[str, dict[str, Any]]
    uses: dict[str, list[dict[str, Any]]]  # family -> the uses of its processors


def run_dump(llvm_config: str) -> tuple[str, Dump]:
    def ask(*args: str) -> list[str]:
        return subprocess.run([llvm_config, *args], check=True, capture_output=True, text=True).stdout.split()

    family_of = {chip: family for family, chips in CHIPS.items() for chip in chips}
    with tempfile.TemporaryDirectory() as directory:
        program = str(Path(directory) / "dump")
        source = str(HERE / "dump.cpp")
        flags, libs = ask("--cxxflags"), ask("--ldflags", "--libs")
        subprocess.run(["g++", "-O1", *flags, source, "-o", program, *libs], check=True)
        dump = Dump({}, defaultdict(list))
        with subprocess.Popen([program, *family_of], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                row = json.loads(line)
                if row["k"] == "op":
                    dump.ops[row["name"]] = row
                elif row["k"] == "use" and row["same"]:
                    dump.uses[family_of[row["chip"]]].append(row)
                elif row["k"] == "crash":
                    print(f"crashed: {row['chip']} {row['name']}", file=sys.stderr)
        if process.returncode:
            raise SystemExit(f"dump ended with {process.returncode}")
    return ask("--version")[0], dump


def register_text(name: str) -> str:
    """How the printer writes a register of MCRegisterInfo: VGPR0_VGPR1 -> v[0:1], VGPR3_LO16 -> v3.l."""
    half = re.fullmatch(r"([VAS])GPR(\d+)_(LO16|HI16)", name)
    if half:
        tail = {"LO16": ".l", "HI16": ".h"}[half[3]] if half[1] == "V" else ""
        return f"{half[1].lower()}{half[2]}{tail}"
    numbers = re.findall(r"(?:^|_)(?:VGPR|AGPR|SGPR|TTMP)(\d+)", name)
    if not numbers:
        return name.lower()
    kind = {"VGPR": "v", "AGPR": "a", "SGPR": "s", "TTMP": "ttmp"}[re.match(r"[A-Z]+", name)[0]]  # type: ignore[index]
    return f"{kind}{numbers[0]}" if len(numbers) == 1 else f"{kind}[{numbers[0]}:{numbers[-1]}]"


def state_name(name: str) -> str:
    """LLVM's name of an implicit register -> ours: the halves of a register stand for the register."""
    name = name.lower()
    for whole in ("exec", "vcc", "flat_scr", "xnack_mask"):
        if name in (whole, whole + "_lo", whole + "_hi"):
            return "flat_scratch" if whole == "flat_scr" else whole
    return name


def printed_operands(text: str) -> list[str]:
    """The operand tokens of a printed instruction without its mnemonic; modifiers behind the last are cut."""
    tokens, depth, current = [], 0, ""
    for char in text:
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            tokens.append(current)
            current = ""
        else:
            current += char
    tokens.append(current)
    return [words[0] for token in tokens if (words := token.split())]


def pseudo_of(name: str, ops: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The pseudo opcode a real opcode was made from, found by name; None if LLVM's naming hides it."""
    doubled = re.match(r"(.+?)(V_.+)$", name)
    names = [name] + ([doubled[2]] if doubled and doubled[1] == doubled[2][: len(doubled[1])] else [])
    for start in names:
        stem = start
        while True:
            for candidate in (stem, stem + "_e64", stem + "_e32", stem.replace("_dpp8", "_dpp")):
                found = ops.get(candidate)
                if found and found["pseudo"]:
                    return found
            shorter = SUFFIX.sub("", stem).replace("_VBUFFER", "")
            if shorter == stem:
                break
            stem = shorter
    return None


def flags_of(op: dict[str, Any], pseudo: dict[str, Any] | None, mnemonic: str, encoding: str) -> set[str]:
    bits = op["ts"]
    flags = {name for bit, name in FLAG_BITS.items() if bits >> bit & 1}
    facts = set(op["flags"])
    if pseudo:
        kept = {"side_effects", "may_load", "may_store"} & set(pseudo["flags"])
        facts = (facts - {"side_effects"}) | kept
    elif encoding not in ("SOPP", "SOPK", "SOP1"):
        facts.discard("side_effects")  # every real opcode carries it; only the pseudo's word counts
    flags |= facts
    if encoding in VMEM:
        flags.add("vmem")
        flags.discard("valu")  # the LDS forms of MUBUF carry VALU
    if encoding in ("FLAT", "GLOBAL", "SCRATCH"):
        flags.add(encoding.lower())
    if "_d16" in mnemonic:
        flags.add("d16")
    if "f64" in mnemonic:
        flags.add("fp64")
    touches_lds = "_LDS_" in op["name"] or "_lds_" in mnemonic or mnemonic.endswith("_lds")
    if touches_lds and (encoding in VMEM or "tensor" in mnemonic):
        flags.add("lds_dma")
    return flags


def encoding_of(bits: int) -> str:
    for bit, name in FORMAT_BITS:
        if bits >> bit & 1:
            return name
    return ""


class Part(Struct):
    """What one printed instruction (or one half of a VOPD) tells."""

    mnemonic: str
    defs: int
    tied: tuple[int, ...]
    widths: tuple[int, ...]
    flags: set[str] = field(default_factory=set)


def parts_of(use: dict[str, Any], op: dict[str, Any]) -> list[Part]:
    register_at: dict[str, int] = {}
    for index, name in enumerate(use["regs"]):
        if name:
            register_at.setdefault(register_text(name), index)  # a tied input has its output's register
    written = {state_name(r) for r in op["sets"]}
    if any(register_text(name) not in use["print"] for name in use["regs"][: op["defs"]]):
        written.add("vcc")  # SDWA compares of gfx8 have an output operand, yet their text says "vcc"
    shown = set(REGISTER.findall(use["print"]))
    ties: dict[int, int] = {}  # def index -> tied or hidden input
    for index, (_, _, tied) in enumerate(op["ops"]):
        if tied >= 0:
            ties[tied] = index
        elif (
            index >= op["defs"] > 0
            and use["regs"][index]
            and use["widths"][index] == use["widths"][0]
            and register_text(use["regs"][index]) not in shown
        ):
            ties[0] = index  # an input that is not printed: the real opcode lost the tie of its pseudo
    parts = []
    for text in use["print"].split(" :: "):
        mnemonic, _, rest = text.partition(" ")
        tokens = printed_operands(rest)
        defs, tied_places, widths, leading = 0, [], [], True
        for place, token in enumerate(tokens):
            position = register_at.get(token)
            is_def = position is not None and position < op["defs"]
            if position is None and leading and state_name(token) in written:
                is_def = True
            leading = leading and is_def
            if is_def and leading:
                defs += 1
                if position is not None and position in ties:
                    tied_places.append(place)
            elif is_def:
                raise SystemExit(f"{op['name']}: a written operand behind a read one: {use['print']}")
            widths.append(use["widths"][position] if position is not None else 0)
        parts.append(Part(mnemonic, defs, tuple(tied_places), tuple(widths)))
    if sum(part.defs for part in parts) < op["defs"]:
        parts[0].flags.add("unlisted_def")
    return parts


def merged_widths(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    out = []
    for place in range(max(len(left), len(right))):
        a = left[place] if place < len(left) else 0
        b = right[place] if place < len(right) else 0
        if a == b or {a, b} == {16, 32}:  # without real-true16, LLVM gives 16-bit operands a 32-bit register
            out.append(min(a, b))
        else:
            out.append(LANE_MASK if LANE_MASK in (a, b) and {a, b} <= {32, 64, LANE_MASK} else 0)
    return tuple(out)


def wave_sized(uses: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One use an opcode; a width that follows the wave size is LANE_MASK."""
    by_name: dict[str, dict[str, Any]] = {}
    for use in uses:
        first = by_name.setdefault(use["name"], use)
        for place, width in enumerate(use["widths"]):
            if {width, first["widths"][place]} == {32, 64}:
                first["widths"][place] = LANE_MASK
    return list(by_name.values())


def base_names(mnemonic: str) -> Iterator[str]:
    """The mnemonics of the plain form of a DPP or SDWA mnemonic, best first."""
    stem = re.sub(r"(_e64)?_(dpp|sdwa)$", "", mnemonic)
    if mnemonic.endswith("_e64_dpp"):
        yield stem + "_e64"
    yield from (stem + "_e32", stem, stem + "_e64")


def merged_variants(rows: list[Signature]) -> list[Signature]:
    """One signature for all forms of a mnemonic that its text does not tell apart by name.

    What is kept apart: results or not (atomics), into registers or into LDS, the operand count of VOPD
    halves. The rest is united to the side of caution: what any form reads, writes, or is.
    """
    if any(not row.flags & {"dpp", "sdwa"} for row in rows):  # v_nop has these forms under one name
        rows = [row for row in rows if not row.flags & {"dpp", "sdwa"}]
    rows = sorted(rows, key=lambda row: row.encoding == "VOP3")
    groups: dict[tuple[object, ...], Signature] = {}
    for row in rows:
        if row.encoding in ("MIMG", "VIMAGE", "VSAMPLE"):
            row = replace(row, widths=(0,) * len(row.widths))  # they follow dmask, a16, tfe and the dimension
        kinds = row.flags & {"atomic_ret", "atomic_noret", "lds_dma"}
        places = len(row.widths) if row.encoding == "VOPD" else 0
        key = (row.defs, row.tied, kinds, places)
        old = groups.get(key)
        groups[key] = (
            row
            if old is None
            else replace(
                old,
                reads=tuple(sorted({*old.reads, *row.reads})),
                writes=tuple(sorted({*old.writes, *row.writes})),
                flags=old.flags | row.flags,
                widths=merged_widths(old.widths, row.widths),
            )
        )
    return list(groups.values())


def family_table(family: str, dump: Dump, problems: list[str]) -> dict[str, list[Signature]]:
    found: dict[str, list[Signature]] = defaultdict(list)
    halves: dict[tuple[str, int], list[Signature]] = defaultdict(list)
    for use in wave_sized(dump.uses[family]):
        op = dump.ops[use["name"]]
        pseudo = pseudo_of(use["name"], dump.ops)
        source = op
        if op["ts"] >> 25 & 1 and family != "gfx8":  # DS: from gfx9 on without M0; only the pseudo says so
            source = dump.ops.get(re.sub(r"_vi(_gfx9|_agpr)?$", "_gfx9", use["name"]), op)
        reads = {state_name(r) for r in source["uses"]}
        writes = {state_name(r) for r in source["sets"]}
        parts = parts_of(use, op)
        for part in parts:
            encoding = "VOPD" if part.mnemonic.startswith("v_dual_") else encoding_of(op["ts"])
            flags = flags_of(op, pseudo, part.mnemonic, encoding) | part.flags
            if " gds" in use["print"]:
                flags.add("gds")
            signature = Signature(
                encoding,
                part.defs,
                part.tied,
                tuple(sorted(reads)),
                tuple(sorted(writes)),
                frozenset(flags | ({"vopd"} if encoding == "VOPD" else set())),
                part.widths,
            )
            if encoding == "VOPD":
                halves[part.mnemonic, len(part.widths)].append(signature)
            else:
                found[part.mnemonic].append(signature)
    for (mnemonic, _), rows in sorted(halves.items()):
        # What every pair with this half has is the half's own; what only some pairs have is the other half's.
        half = rows[0]
        for row in rows[1:]:
            half = replace(
                half,
                reads=tuple(r for r in half.reads if r in row.reads),
                writes=tuple(r for r in half.writes if r in row.writes),
                flags=half.flags & row.flags,
                widths=merged_widths(half.widths, row.widths),
            )
            if (row.defs, row.tied) != (half.defs, half.tied):
                problems.append(f"{family} {mnemonic}: halves disagree on outputs")
        found[mnemonic].append(half)
    for mnemonic, rows in found.items():
        for place, row in enumerate(rows):
            if row.flags & {"dpp", "sdwa"} and row.encoding in ("", "VOP3", "VOP3P"):
                # "old" of DPP is the caller's to judge: ties come from the plain form, as does the encoding
                base = next((found[name][0] for name in base_names(mnemonic) if name in found), None)
                if base is None:
                    problems.append(f"{family} {mnemonic}: no plain form")
                else:
                    kind = base.flags & {"trans", "dot", "packed", "mai", "wmma"}
                    rows[place] = replace(
                        row, encoding=row.encoding or base.encoding, tied=base.tied, flags=row.flags | kind
                    )
    table: dict[str, list[Signature]] = {}
    for mnemonic, rows in sorted(found.items()):
        if mnemonic.startswith("image_atomic") and not any("atomic_noret" in r.flags for r in rows):
            # LLVM has image atomics only with a result; without glc the data register is only read
            plain = frozenset({"atomic_noret"} | rows[0].flags - {"atomic_ret"})
            rows = [*rows, *(replace(r, defs=0, tied=(), flags=plain) for r in rows)]
        table[mnemonic] = merged_variants(rows)
    return table


def apply_supplement(table: Table, rows: list[dict[str, Any]], problems: list[str]) -> None:
    """Each row of opcode_supplement.yaml, in order. A row that changes nothing is reported as out of date."""
    for row in rows:
        changed = False
        names = [row["mnemonics"]] if isinstance(row["mnemonics"], str) else row["mnemonics"]
        skip = row.get("except", [])
        for family in row.get("families", list(table)):
            for mnemonic, signatures in table[family].items():
                if not any(fnmatch.fnmatchcase(mnemonic, name) for name in names):
                    continue
                if any(fnmatch.fnmatchcase(mnemonic, name) for name in skip):
                    continue
                for place, old in enumerate(signatures):
                    reads = {*old.reads, *row.get("reads", ())} - {*row.get("drop_reads", ())}
                    writes = {*old.writes, *row.get("writes", ())} - {*row.get("drop_writes", ())}
                    new = replace(
                        old,
                        encoding=row.get("encoding", old.encoding),
                        defs=row.get("defs", old.defs),
                        tied=tuple(row.get("tied", old.tied)),
                        reads=tuple(sorted(reads)),
                        writes=tuple(sorted(writes)),
                        flags=(old.flags | {*row.get("flags", ())}) - {*row.get("drop_flags", ())},
                    )
                    changed |= new != old
                    signatures[place] = new
                signatures[:] = list(dict.fromkeys(signatures))
        if not changed:
            problems.append(f"supplement row changes nothing: {row['mnemonics']}")


def encode(table: Table, version: str) -> str:
    signatures: dict[Signature, int] = {}
    families: dict[str, dict[str, int | list[int]]] = {}
    for family, mnemonics in table.items():
        rows: dict[str, int | list[int]] = {}
        for mnemonic, variants in sorted(mnemonics.items()):
            ids = [signatures.setdefault(v, len(signatures)) for v in variants]
            rows[mnemonic] = ids[0] if len(ids) == 1 else ids
        families[family] = rows
    strings = sorted({s for v in signatures for s in (v.encoding, *v.reads, *v.writes, *v.flags)})
    at = {s: i for i, s in enumerate(strings)}
    document = {
        "schema": SCHEMA,
        "source": f"LLVM {version} AMDGPU MCInstrDesc tables, and opcode_supplement.yaml beside this file",
        "built_by": "tools/opcode_table/build.py",
        "license": "Apache-2.0 WITH LLVM-exception",
        "chips": {f: sorted({chip.partition("+")[0] for chip in chips}) for f, chips in CHIPS.items()},
        "strings": strings,
        "signatures": [
            [at[v.encoding], v.defs, v.tied, [at[r] for r in v.reads], [at[w] for w in v.writes],
             sorted(at[f] for f in v.flags), v.widths]
            for v in signatures
        ],
        "families": families,
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":")) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llvm-config", default="llvm-config-22")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    version, dump = run_dump(options.llvm_config)
    problems: list[str] = []
    table = {family: family_table(family, dump, problems) for family in CHIPS}
    supplement = yaml.safe_load((DATA / "opcode_supplement.yaml").read_text())
    apply_supplement(table, supplement["rows"], problems)
    problems += [
        f"{family} {mnemonic}: no encoding"
        for family, rows in table.items()
        for mnemonic, signatures in rows.items()
        if not all(signature.encoding for signature in signatures)
    ]
    text = encode(table, version)
    target = DATA / "opcodes.json"
    for problem in problems:
        print(problem, file=sys.stderr)
    counts = ", ".join(f"{family} {len(rows)}" for family, rows in table.items())
    print(f"{len(text)} bytes, {len(json.loads(text)['signatures'])} signatures; mnemonics: {counts}")
    if options.check:
        return int(bool(problems) or text != target.read_text())
    target.write_text(text)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
