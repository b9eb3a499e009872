"""Turns the IR that `lowering` writes into machine code of the host.

The pipeline is short on purpose: put the small functions of floating-point operations where they are called, clean
up and combine instructions. LLVM's whole pipeline takes four times as long and gains nothing on straight vector
code. Machine code is bytes (an object file), so that it can be kept on disk: it holds for `host()` only.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from asmevo.semantics import slow_path


@cache
def _machine(level: int) -> Any:
    return _fresh_machine(level)


@cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@cache
def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


def host() -> str:
    """What object code depends on beside its IR: LLVM's version, the processor and its features."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"llvm {version} {llvm.get_host_cpu_name()} {_features()}"


def object_code(module: Any, level: int = 1) -> bytes:
    """An object file of an `llvmlite.ir.Module`; `level` 0 to 3 is that of instruction selection.

    Raises RuntimeError when LLVM refuses the IR.
    """
    machine = _machine(level)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    parsed = llvm.parse_assembly(str(module))
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    inlining = llvm.create_new_module_pass_manager()
    inlining.add_always_inliner_pass()
    inlining.run(parsed, passes)
    cleaning = llvm.create_new_function_pass_manager()
    cleaning.add_simplify_cfg_pass()
    cleaning.add_instruction_combine_pass()
    for function in parsed.functions:
        if not function.is_declaration:
            cleaning.run(function, passes)
    return bytes(machine.emit_object(parsed))


def load(code: bytes) -> Any:
    """An execution engine with the functions of an object file; keep it as long as they may run.

    `get_function_address(name)` gives a function's address.
    """
    slow_path.install()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _fresh_machine(0))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _fresh_machine(level: int) -> Any:
    """A machine of one's own: an engine takes ownership."""
    return _target().create_target_machine(cpu=llvm.get_host_cpu_name(), features=_features(), opt=level, jit=True)
