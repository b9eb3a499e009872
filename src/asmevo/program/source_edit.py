"""Edits of kernels as edits of the lines they came from; every other line stays as it is.

In each block, the longest run of instructions that keep their order stays where it is. An instruction that
moved takes its line along, with its comment; labels, directives and what else stands between lines stay.
An instruction can be edited when its line is a plain statement that makes this one instruction: what comes
out of a macro, a repetition or a conditional that is assembled several times is not one line's to change.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from typing import overload

from msgspec import Struct, field

from asmevo.program.directives import descriptor_fields
from asmevo.program.errors import WriteError
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.program import Program
from asmevo.program.source import SourceText
from asmevo.program.spelling import spell
from asmevo.program.statements import LineKind, mask_comments

_REFERENCE = re.compile(r"(@(?:gotpc)?rel32@(?:lo|hi)\s*\+\s*)(\d+)")
_ALIGNMENTS = frozenset({".p2align", ".p2alignl", ".p2alignw", ".align", ".balign", ".balignl", ".balignw"})
_DASH = re.compile(r"\s*- +")
_DEFAULT_INDENT = "\t"
_OFFSET, _TOTAL = "accum_offset", "next_free_vgpr"


class _Lines(Struct):
    """What happens to each line (counted from 1)."""

    removed: set[int] = field(default_factory=set)
    replaced: dict[int, str] = field(default_factory=dict)
    before: dict[int, list[str]] = field(default_factory=dict)
    after: dict[int, list[str]] = field(default_factory=dict)


@overload
def edit_source(program: Program, pairs: list[tuple[Kernel, Kernel]]) -> str: ...
@overload
def edit_source(program: Program, pairs: list[tuple[Kernel, Kernel]], *, alignment_written_out: bool) -> str | None: ...
def edit_source(
    program: Program, pairs: list[tuple[Kernel, Kernel]], *, alignment_written_out: bool = False
) -> str | None:
    """The text with the second kernel of each pair in the place of the first. Raises WriteError.

    With `alignment_written_out` alignment inside the kernels becomes plain instructions; None when there
    is none.
    """
    assert program.source is not None
    editor = _Editor(program, program.source)
    written_out = False
    for old, new in pairs:
        editor.edit_code(old, new)
        written_out |= alignment_written_out and editor.write_alignment_out(old)
    if alignment_written_out and not written_out:
        return None
    text = editor.text()
    for old, new in pairs:
        text = _edit_descriptor(text, old, new, program.file)
        text = _edit_metadata(text, old, new, program.file)
    return text


class _Editor:
    def __init__(self, program: Program, source: SourceText) -> None:
        self.program, self.source = program, source
        self.lines = source.lines
        self.scanned = source.scanned
        self.plan = _Lines()
        self.uses = Counter(each.line for kernel in program.kernels for each in kernel.instructions)
        self.labels_made = 0

    def edit_code(self, old: Kernel, new: Kernel) -> None:
        if len(old.blocks) != len(new.blocks):
            raise WriteError(self.program.file, f"{new.name} has other blocks than before")
        self.new = new
        self.old_by_id = old.by_id
        self.shift = _reference_shifts(old, new)
        self._targets(old, new)
        kept = {instruction.id for instruction in new.instructions}
        for instruction in old.instructions:
            if instruction.id not in kept:
                self._remove(instruction)
        for before, after in zip(old.blocks, new.blocks, strict=True):
            self._edit_block(before, after)

    def write_alignment_out(self, kernel: Kernel) -> bool:
        """Makes alignment between the kernel's lines plain instructions; says whether there is any."""
        made: dict[int, list[Instruction]] = {}
        for instruction in kernel.instructions:
            made.setdefault(self._line(instruction), []).append(instruction)
        found = False
        for line in range(min(made) + 1, max(made) + 1):
            if self.scanned[line - 1].token in _ALIGNMENTS:
                texts = [self._indent(line) + each.decoded.text for each in made.get(line, [])]
                self.plan.replaced[line] = "\n".join(texts) or f"{self._indent(line)}; aligned by nothing"
                found = True
        return found

    def _targets(self, old: Kernel, new: Kernel) -> None:
        """New branches get a label of ours to go to, since the text's own names are not known."""
        self.target_names: dict[int, str] = {}
        made: dict[str, str] = {}
        blocks = new.block_of_label
        for instruction in new.instructions:
            was = self.old_by_id.get(instruction.id)
            if instruction.target is None or (was is not None and was.target == instruction.target):
                continue
            if instruction.target not in blocks:
                self.target_names[instruction.id] = instruction.target
                continue
            if instruction.target not in made:
                self.labels_made += 1
                made[instruction.target] = f".Lasmevo_{old.name}_{self.labels_made}"
                line = self._line(old.blocks[blocks[instruction.target]].instructions[0])
                self.plan.before.setdefault(line, []).append(f"{made[instruction.target]}:")
            self.target_names[instruction.id] = made[instruction.target]

    def _edit_block(self, before: Block, after: Block) -> None:
        places = {instruction.id: place for place, instruction in enumerate(before.instructions)}
        staying = _longest_ascending([(each.id, places[each.id]) for each in after.instructions if each.id in places])
        home = self._line(before.instructions[0]) if before.instructions else None
        last: int | None = None
        waiting: list[str] = []
        for instruction in after.instructions:
            if instruction.id in staying:
                line = self._line(instruction)
                if waiting:
                    self.plan.before.setdefault(line, []).extend(waiting)
                    waiting = []
                if self._changed(instruction):
                    self._check(instruction)
                    self.plan.replaced[line] = self._written(instruction, line)
                last = line
                continue
            text = self._moved_or_new(instruction, last or home)
            if last is None:
                waiting.append(text)
            else:
                self.plan.after.setdefault(last, []).append(text)
        if waiting:
            if home is None:
                raise WriteError(self.program.file, f"a block of {self.new.name} has no line to stand in")
            self.plan.before.setdefault(home, []).extend(waiting)

    def _line(self, instruction: Instruction) -> int:
        if instruction.line is None:
            raise WriteError(self.program.file, f"it is not known which line `{instruction.text}` comes from")
        return instruction.line

    def _check(self, instruction: Instruction) -> int:
        """The line of an instruction, if it is the line's to change."""
        line = self._line(instruction)
        kind = self.scanned[line - 1].kind
        if kind is LineKind.EXPANSION:
            words = f"`{instruction.text}` comes out of a macro or repetition and cannot be edited"
            raise WriteError(self.program.file, words, line)
        if self.uses[line] != 1:
            token = self.scanned[line - 1].token
            words = f"`{instruction.text}` is one of several that `{token}` makes and cannot be edited"
            raise WriteError(self.program.file, words, line)
        return line

    def _remove(self, instruction: Instruction) -> None:
        self.plan.removed.add(self._check(instruction))

    def _changed(self, instruction: Instruction) -> bool:
        was = self.old_by_id[instruction.id]
        if instruction.id in self.shift or instruction.id in self.target_names:
            return True
        if instruction.decoded is was.decoded and instruction.reference == was.reference:
            return False
        return (instruction.decoded.code, instruction.reference) != (was.decoded.code, was.reference)

    def _moved_or_new(self, instruction: Instruction, near: int | None) -> str:
        if instruction.id not in self.old_by_id:
            return self._written(instruction, near)
        line = self._check(instruction)
        self.plan.removed.add(line)
        if self._changed(instruction):
            return self._written(instruction, line)
        return self._indent(line) + self.lines[line - 1][self.scanned[line - 1].start :]

    def _written(self, instruction: Instruction, line: int | None) -> str:
        indent = self._indent(line)
        shift = self.shift.get(instruction.id)
        was = self.old_by_id.get(instruction.id)
        if shift is not None and was is not None and was.line is not None:
            scanned = self.scanned[was.line - 1]
            statement = self.lines[was.line - 1][scanned.start : scanned.end]
            shifted, count = _REFERENCE.subn(lambda found: f"{found[1]}{int(found[2]) + shift}", statement)
            if count != 1:
                words = f"`{statement}` counts from its s_getpc_b64 and would have to change with it"
                raise WriteError(self.program.file, words, was.line)
            return indent + shifted
        target = self.target_names.get(instruction.id)
        if target is not None:
            return f"{indent}{instruction.decoded.text.rsplit(' ', 1)[0]} {target}"
        return indent + spell(instruction.decoded, self.new.target, self.source.processor)

    def _indent(self, line: int | None) -> str:
        if line is None:
            return _DEFAULT_INDENT
        head = self.lines[line - 1][: self.scanned[line - 1].start]
        return head if not head.strip() else _DEFAULT_INDENT

    def text(self) -> str:
        result = []
        plan = self.plan
        for number, line in enumerate(self.lines, 1):
            scanned = self.scanned[number - 1]
            edited = number in plan.removed or number in plan.replaced
            before = plan.before.get(number, [])
            head = line[: scanned.start].rstrip()
            if head and (edited or before):
                result.append(head)  # a label, or a comment, before the statement
                line = _DEFAULT_INDENT + line[scanned.start :]
            result += before
            if number in plan.replaced:
                result.append(plan.replaced[number])
            elif number not in plan.removed:
                result.append(line)
            result += plan.after.get(number, [])
        return "\n".join(result)


def _longest_ascending(pairs: list[tuple[int, int]]) -> set[int]:
    """The ids of a longest subsequence with ascending places (patience sorting)."""
    tails: list[int] = []
    tail_index: list[int] = []
    previous: list[int] = []
    for index, (_, place) in enumerate(pairs):
        pile = bisect_left(tails, place)
        previous.append(tail_index[pile - 1] if pile else -1)
        tails[pile : pile + 1] = [place]
        tail_index[pile : pile + 1] = [index]
    found, index = set(), tail_index[-1] if tail_index else -1
    while index >= 0:
        found.add(pairs[index][0])
        index = previous[index]
    return found


def _reference_shifts(old: Kernel, new: Kernel) -> dict[int, int]:
    """By how much the distance of each reference from its s_getpc changed (bytes), where it did."""
    before, after = _distances(old), _distances(new)
    return {id_: after[id_] - before[id_] for id_ in after if id_ in before and after[id_] != before[id_]}


def _distances(kernel: Kernel) -> dict[int, int]:
    place, places = 0, {}
    for instruction in kernel.instructions:
        places[instruction.id] = place
        place += instruction.size
    return {
        each.id: places[each.id] - places[each.reference.getpc]
        for each in kernel.instructions
        if each.reference is not None and each.reference.getpc in places
    }


def _edit_descriptor(text: str, old: Kernel, new: Kernel, file: str) -> str:
    if old.descriptor is None or new.descriptor is None or old.descriptor == new.descriptor:
        return text
    before, after = (dict(descriptor_fields(each.descriptor, each.target)) for each in (old, new) if each.descriptor)
    changed = [(name, value) for name, value in after.items() if before.get(name) != value]
    if before.get(_OFFSET) != after.get(_OFFSET):
        changed.append((_TOTAL, after[_TOTAL]))  # the text may say less than its granules, and LLVM compares the two
    masked = mask_comments(text)
    block = re.search(
        rf"^[ \t]*\.amdhsa_kernel[ \t]+\"?{re.escape(old.name)}\"?[ \t]*$(.*?)^[ \t]*\.end_amdhsa_kernel",
        masked,
        re.M | re.S,
    )
    if block is None:
        raise WriteError(file, f"the text has no .amdhsa_kernel block for {old.name}")
    body = text[block.start(1) : block.end(1)]
    for name, value in changed:
        body, count = re.subn(rf"^([ \t]*\.amdhsa_{name}[ \t]+)[^\n]*", rf"\g<1>{value}", body, flags=re.M)
        if not count:
            body += f"\t\t.amdhsa_{name} {value}\n"
    return text[: block.start(1)] + body + text[block.end(1) :]


def _edit_metadata(text: str, old: Kernel, new: Kernel, file: str) -> str:
    before, after = old.metadata or {}, new.metadata or {}
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    if before.keys() != after.keys():
        raise WriteError(file, f"the metadata of {old.name} has other entries than before")
    if not changed:
        return text
    lines = text.split("\n")
    item = _metadata_item(lines, old.name)
    for key, value in changed.items():
        places = [n for n in item if re.match(rf"^[ \t-]*{re.escape(key)}:[ \t]", lines[n])]
        if len(places) != 1 or not isinstance(value, int):
            raise WriteError(file, f"the text's metadata of {old.name} has no line for {key}")
        lines[places[0]] = re.sub(r"(:[ \t]+).*", rf"\g<1>{value}", lines[places[0]], count=1)
    return "\n".join(lines)


def _metadata_item(lines: list[str], name: str) -> range:
    """The lines of one kernel's entry in the list `amdhsa.kernels`; none unless it is in block style."""
    start = next((n for n, line in enumerate(lines) if line.strip() == "amdhsa.kernels:"), None)
    if start is None or start + 1 == len(lines):
        return range(0)
    dash = _DASH.match(lines[start + 1])
    if dash is None:
        return range(0)
    inner = " " * len(dash[0])
    end = start + 1
    heads = []
    while end < len(lines) and (lines[end].startswith(inner) or lines[end].startswith(dash[0])):
        if lines[end].startswith(dash[0]):
            heads.append(end)
        end += 1
    named = re.compile(rf"({re.escape(dash[0])}|{inner})\.name:[ \t]+['\"]?{re.escape(name)}['\"]?[ \t]*$")
    for head, following in zip(heads, [*heads[1:], end], strict=True):
        if any(named.match(line) for line in lines[head:following]):
            return range(head, following)
    return range(0)
