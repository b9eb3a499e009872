"""LLVM inside this process, through the C interface of the library in `rocm-llvm-python`.

The C interface has no call "assemble this text", but a module whose inline assembly is the text and
which is emitted as an object file is exactly that: directives, sections and kernel descriptors all
reach the object. Complaints arrive at the context's diagnostic handler with line and column and never
end the process. A disassembler is kept for each processor, since making one costs a thousand times
what decoding an instruction does.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from asmevo.toolchain import assembled_object, assembly_guard, clang, decoding, fatal_errors, linker
from asmevo.toolchain.base import TRIPLE, DecodedWord, Processor
from asmevo.toolchain.diagnostics import parse_diagnostics
from asmevo.toolchain.errors import (
    AssemblyError,
    CompilationError,
    Diagnostic,
    ToolchainError,
    ToolchainMissingError,
)
from asmevo.toolchain.fatal_errors import FatalError, survive

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_HANDLER = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)

_OBJECT_FILE = 1  # LLVMCodeGenFileType
_OPTIMISE_DEFAULT, _RELOCATE_PIC, _CODE_MODEL_DEFAULT = 2, 2, 0
_SEVERITY_ERROR = 0
_TEXT_LIMIT = 1024

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMContextCreate": (_POINTER, ()),
    "LLVMContextDispose": (None, (_POINTER,)),
    "LLVMContextSetDiagnosticHandler": (None, (_POINTER, _HANDLER, _POINTER)),
    "LLVMCreateDisasmCPUFeatures": (
        _POINTER,
        (_TEXT, _TEXT, _TEXT, _POINTER, ctypes.c_int, _POINTER, _POINTER),
    ),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (_POINTER, (_TEXT, ctypes.c_size_t, _TEXT)),
    "LLVMCreateTargetMachine": (
        _POINTER,
        (_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ),
    "LLVMDisasmInstruction": (
        ctypes.c_size_t,
        (_POINTER, _POINTER, ctypes.c_uint64, ctypes.c_uint64, _TEXT, ctypes.c_size_t),
    ),
    "LLVMDisposeMemoryBuffer": (None, (_POINTER,)),
    "LLVMDisposeMessage": (None, (_POINTER,)),
    "LLVMDisposeModule": (None, (_POINTER,)),
    "LLVMDisposeTargetMachine": (None, (_POINTER,)),
    "LLVMGetBufferSize": (ctypes.c_size_t, (_POINTER,)),
    "LLVMGetBufferStart": (_POINTER, (_POINTER,)),
    "LLVMGetDiagInfoDescription": (_POINTER, (_POINTER,)),
    "LLVMGetDiagInfoSeverity": (ctypes.c_int, (_POINTER,)),
    "LLVMGetTargetFromTriple": (ctypes.c_int, (_TEXT, _POINTER, _POINTER)),
    "LLVMGetVersion": (None, (_POINTER, _POINTER, _POINTER)),
    "LLVMModuleCreateWithNameInContext": (_POINTER, (_TEXT, _POINTER)),
    "LLVMParseIRInContext": (ctypes.c_int, (_POINTER, _POINTER, _POINTER, _POINTER)),
    "LLVMSetModuleInlineAsm2": (None, (_POINTER, _TEXT, ctypes.c_size_t)),
    "LLVMSetTarget": (None, (_POINTER, _TEXT)),
    "LLVMTargetMachineEmitToMemoryBuffer": (
        ctypes.c_int,
        (_POINTER, _POINTER, ctypes.c_int, _POINTER, _POINTER),
    ),
}
_INITIALISERS = ("TargetInfo", "Target", "TargetMC", "AsmParser", "AsmPrinter", "Disassembler")


def _library_path() -> Path:
    spec = importlib.util.find_spec("rocm")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(root) / "llvm" / "librocmllvm.so"
        if path.exists():
            return path
    raise ToolchainMissingError("rocm-llvm-python is not installed; `pip install rocm-llvm-python` brings AMD's LLVM")


@functools.cache
def _llvm() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_library_path()))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for part in _INITIALISERS:
        getattr(library, f"LLVMInitializeAMDGPU{part}")()
    fatal_errors.install(library)
    return library


def _take_message(llvm: ctypes.CDLL, pointer: _POINTER) -> str:
    if not pointer:
        return ""
    text = ctypes.string_at(pointer).decode(errors="replace")
    llvm.LLVMDisposeMessage(pointer)
    return text


class _Session:
    """One LLVM context with its complaints; a context manager, everything inside is freed at the end."""

    def __init__(self) -> None:
        self.llvm = _llvm()
        self.complaints: list[str] = []
        self._handler = _HANDLER(self._on_diagnostic)
        self._cleanups: list[Callable[[], None]] = []

    def __enter__(self) -> _Session:
        self.context = self.llvm.LLVMContextCreate()
        self.llvm.LLVMContextSetDiagnosticHandler(self.context, self._handler, None)
        return self

    def __exit__(self, *_: object) -> None:
        for cleanup in reversed(self._cleanups):
            cleanup()
        self.llvm.LLVMContextDispose(self.context)

    def _on_diagnostic(self, info: int, _: int) -> None:
        pointer = self.llvm.LLVMGetDiagInfoDescription(info)
        text = _take_message(self.llvm, pointer)
        if self.llvm.LLVMGetDiagInfoSeverity(info) == _SEVERITY_ERROR:
            self.complaints.append(text)

    def module_of_assembly(self, source: str) -> int:
        module = self.llvm.LLVMModuleCreateWithNameInContext(b"source", self.context)
        self._cleanups.append(lambda: self.llvm.LLVMDisposeModule(module))
        self.llvm.LLVMSetTarget(module, TRIPLE.encode())
        text = source.encode()
        self.llvm.LLVMSetModuleInlineAsm2(module, text, len(text))
        return int(module)

    def module_of_ir(self, ir: str, file: str) -> int:
        text = ir.encode()
        buffer = self.llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(text, len(text), file.encode())
        module, message = _POINTER(), _POINTER()
        failed = self.llvm.LLVMParseIRInContext(self.context, buffer, ctypes.byref(module), ctypes.byref(message))
        words = _take_message(self.llvm, message)
        if failed or not module.value:
            raise CompilationError(words.strip() or f"{file}: not LLVM IR")
        self._cleanups.append(lambda: self.llvm.LLVMDisposeModule(module))
        self.llvm.LLVMSetTarget(module, TRIPLE.encode())
        return module.value

    def emit(self, module: int, processor: Processor) -> bytes | None:
        """The module as an object file, or None when LLVM complained."""
        machine = self._target_machine(processor)
        message, buffer = _POINTER(), _POINTER()
        failed = self.llvm.LLVMTargetMachineEmitToMemoryBuffer(
            machine, module, _OBJECT_FILE, ctypes.byref(message), ctypes.byref(buffer)
        )
        words = _take_message(self.llvm, message)
        if words:
            self.complaints.append(words)
        if not buffer.value:
            return None
        content = ctypes.string_at(self.llvm.LLVMGetBufferStart(buffer), self.llvm.LLVMGetBufferSize(buffer))
        self.llvm.LLVMDisposeMemoryBuffer(buffer)
        return None if failed or self.complaints else content

    def _target_machine(self, processor: Processor) -> int:
        target, message = _POINTER(), _POINTER()
        if self.llvm.LLVMGetTargetFromTriple(TRIPLE.encode(), ctypes.byref(target), ctypes.byref(message)):
            raise ToolchainError(_take_message(self.llvm, message))
        machine = self.llvm.LLVMCreateTargetMachine(
            target,
            TRIPLE.encode(),
            processor.cpu.encode(),
            processor.features.encode(),
            _OPTIMISE_DEFAULT,
            _RELOCATE_PIC,
            _CODE_MODEL_DEFAULT,
        )
        self._cleanups.append(lambda: self.llvm.LLVMDisposeTargetMachine(machine))
        return int(machine)


def _emit(
    make: Callable[[_Session], int], processor: Processor, seconds: float | None = None
) -> tuple[bytes | None, list[str]]:
    """The object file of a module, or None, with LLVM's complaints; its fatal errors are complaints too."""

    def work() -> tuple[bytes | None, list[str]]:
        with _Session() as session:
            return session.emit(make(session), processor), session.complaints

    try:
        return survive(work, seconds)
    except FatalError as error:
        return None, [str(error)]


@functools.cache
def _disassembler(processor: Processor) -> int:
    """A disassembler handle; made once for each processor and kept for the life of the process."""
    handle = _llvm().LLVMCreateDisasmCPUFeatures(
        TRIPLE.encode(), processor.cpu.encode(), processor.features.encode(), None, 0, None, None
    )
    if not handle:
        raise ToolchainError(f"LLVM has no disassembler for {processor.cpu}")
    return int(handle)


class LibraryToolchain:
    """The Toolchain contract, answered in this process."""

    @property
    def version(self) -> str:
        """LLVM's version with the package that carries it."""
        numbers = [ctypes.c_uint() for _ in range(3)]
        _llvm().LLVMGetVersion(*(ctypes.byref(number) for number in numbers))
        return ".".join(str(number.value) for number in numbers)

    def assemble(self, source: str, processor: Processor, file: str = "<source>") -> bytes:
        """See Toolchain.assemble."""
        assembly_guard.check(source, file)
        prepared = assembled_object.prepare(source)
        content, complaints = _emit(
            lambda session: session.module_of_assembly(prepared),
            processor,
            assembly_guard.seconds_for(source),
        )
        if content is None:
            raise AssemblyError(_as_diagnostics([assembled_object.plain(words) for words in complaints], file))
        return assembled_object.restore(content, source)

    def disassemble(self, code: bytes, processor: Processor, address: int = 0) -> list[DecodedWord]:
        """See Toolchain.disassemble."""
        decode = _llvm().LLVMDisasmInstruction
        handle = _disassembler(processor)
        source = ctypes.create_string_buffer(code, len(code) + decoding.PADDING)
        start = ctypes.addressof(source)
        text = ctypes.create_string_buffer(_TEXT_LIMIT)
        deadly = decoding.deadly_offsets(code, processor.cpu)
        words: list[DecodedWord] = []
        offset, end = 0, len(code)
        while offset < end:
            left = end - offset
            size, respelled = 0, None
            if offset not in deadly:
                size = decode(handle, start + offset, left + decoding.PADDING, address + offset, text, _TEXT_LIMIT)
                if size == 0:
                    for respelled in decoding.respellings(code, offset, processor.cpu):
                        given = respelled.word + code[offset + 8 : offset + 16]
                        other = ctypes.create_string_buffer(given, decoding.PADDING)
                        size = decode(handle, other, decoding.PADDING, address + offset, text, _TEXT_LIMIT)
                        if size:
                            break
            if size == 0 or size > left:
                size = min(4, left)
                words.append(DecodedWord(offset, size, None))
            else:
                found = text.value.decode().strip()
                words.append(respelled.decoded(offset, size, found) if respelled else DecodedWord(offset, size, found))
            offset += size
        return words

    def link(self, relocatable: bytes, *, addresses: Mapping[str, int] | None = None) -> bytes:
        """See Toolchain.link; done by the project's own linker, since the library carries none."""
        return linker.link(relocatable, addresses=addresses)

    def compile_ir(self, ir: str, processor: Processor, file: str = "<ir>") -> bytes:
        """See Toolchain.compile_ir."""
        content, complaints = _emit(lambda session: session.module_of_ir(ir, file), processor)
        if content is None:
            raise CompilationError(complaints[0].strip())
        return content

    def compile_opencl(self, source: str, processor: Processor, file: str = "<opencl>") -> bytes:
        """See Toolchain.compile_opencl; the library carries no C front end, so an installed clang is used."""
        return clang.compile_opencl(clang.find_clang(None), source, processor, file)


def _as_diagnostics(complaints: list[str], file: str) -> tuple[Diagnostic, ...]:
    found = [d for text in complaints for d in parse_diagnostics(text, file)]
    if not found:
        words = complaints[0].strip() if complaints else "LLVM wrote no object and gave no reason"
        found = [Diagnostic(file, 1, 1, words)]
    return tuple(found)
