"""asmevo makes AMD GPU kernels faster at the instruction level and never ships a change it could not verify.

The rooms, lowest first: toolchain, target, program, analysis, prover, timing, checks, gates, proposers,
search, report, doors. See ARCHITECTURE.md.
"""
