"""Writes src/asmevo/target/data/memory_distributions.yaml: how long memory took in traces of silicon, by target.

    python tools/memory_distributions.py TRACES

A sample is an access whose wait stalled (see `asmevo.timing.memory_waits`). The captures of the collection are of cold
caches and tiny grids, so this is the `cold` scenario. The kernel that runs every opcode once, on registers that
nobody set, is left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from asmevo.program import write_file_atomically
from asmevo.timing.distribution import Distribution
from asmevo.timing.memory_waits import samples
from asmevo.timing.traces import kernel_of, read_trace, trace_files

DATA = Path(__file__).parent.parent / "src" / "asmevo" / "target" / "data" / "memory_distributions.yaml"
HEAD = """# Cycles from the issue of a load to the end of the wait that it ended, in traces of cold caches: how many
# were seen, the least, the 10th, 50th and 90th percentile, the most. Written by tools/memory_distributions.py.
"""
LEFT_OUT = "discover_ops"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    found: dict[str, dict[str, list[float]]] = {}
    sources: set[str] = set()
    for path in trace_files(parser.parse_args().traces):
        trace = read_trace(path)
        if trace.kernel == LEFT_OUT:
            continue
        kernel = kernel_of(trace, path.parent)
        own = found.setdefault(trace.target, {})
        for sample in samples(kernel, trace.waves, trace.entry - kernel.address):
            own.setdefault(sample.kind, []).append(sample.cycles)
            sources.add(trace.kernel)
    rows = {
        target: {kind: Distribution.of(cycles).to_dict() for kind, cycles in sorted(kinds.items())}
        for target, kinds in sorted(found.items())
        if kinds
    }
    content = {"source": f"SQTT traces of tinygrad: {', '.join(sorted(sources))}", "targets": rows}
    text = HEAD + yaml.safe_dump(content, sort_keys=False, width=120, default_flow_style=None)
    write_file_atomically(DATA, text.encode())


if __name__ == "__main__":
    main()
