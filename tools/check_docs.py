"""Writes what the documents say about rules and constraints from the data: docs/rules.md, docs/constraints.schema.json
and the tables in docs/constraints.md.

Run it after a change of rules or constraint sets: `python tools/check_docs.py`. With `--check` it only says whether
the documents are up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from asmevo.checks.constraints.model import json_schema
from asmevo.checks.constraints.reading import built_in_set, built_in_versions
from asmevo.checks.constraints.switches import switch_table
from asmevo.checks.families import CHECKS
from asmevo.checks.registry import rules
from asmevo.target import target_names

_REFUSED = "New errors and warnings of a candidate are refused by the gate"
_ELSEWHERE = {
    "constraints": f"{_REFUSED} `constraints`, with the sets that it is given.",
    "suppressions": "About comments and files, which no candidate has.",
}
DOCS = Path(__file__).resolve().parent.parent / "docs"


def rules_page() -> str:
    """All rules, one section each, under the anchor that `--explain` and SARIF name."""
    parts = [
        "# Rules of `asmevo check`",
        "Written by `tools/check_docs.py` from the rules' data. `asmevo check --explain RULE` prints the same.",
    ]
    family = None
    for rule in rules().values():
        own = re.split(r"[./]", rule.id)[0]
        if own != family:
            family = own
            parts += [f"## {family}", _gates_of(family)]
        parts.append(f'<a id="{rule.anchor}"></a>\n### {rule.id}\n\n**{rule.severity}**: {rule.title}')
        parts.append(_escaped(rule.meaning))
        parts.append(f"* example: {_escaped(rule.example)}\n* mend: {_escaped(rule.mend)}\n* source: {rule.source}")
    return "\n\n".join(parts) + "\n"


def _gates_of(family: str) -> str:
    """Which gate refuses candidates for findings of a family; what no gate holds, and why."""
    own = [check for check in CHECKS if check.family == family]
    if not own:
        return _ELSEWHERE[family]
    gates = sorted({check.gate for check in own if check.gate})
    held = [f"{_REFUSED} `{gate}`." for gate in gates]
    return " ".join([*held, *(f"Not held by a gate: {check.why_not}." for check in own if check.why_not)])


def _escaped(text: str) -> str:
    """Markdown reads `*`, `_` and `<` between words as markup."""
    return re.sub(r"([*_<])", r"\\\1", text)


def sets_table() -> str:
    """The built-in sets with the ids of their entries."""
    lines = ["| set | entries | DPP forms it lacks | switches off |", "|---|---|---|---|"]
    for target in target_names():
        for version in built_in_versions(target):
            found = built_in_set(target, version)
            entries = " ".join(f"`{each.entry.id}`" for each in found.entries)
            lacks = " ".join(f"`{name}`" for name, support in found.dpp.items() if not support.supported)
            off = " ".join(f"`{name}`" for name, switch in found.switches.items() if not switch.allowed)
            lines.append(f"| {target}, ROCm {version} | {entries} | {lacks} | {off} |")
    return "\n".join(lines)


def switches_table() -> str:
    """What each switch covers."""
    lines = ["| switch | what it allows | instructions |", "|---|---|---|"]
    for name, row in switch_table().items():
        covers = " ".join(f"`{each}`" for selector in row["covers"] for each in next(iter(selector.values())))
        lines.append(f"| `{name}` | {row['meaning']} | {covers} |")
    return "\n".join(lines)


def documents() -> dict[Path, str]:
    """Every document with its content as it should be."""
    page = DOCS / "constraints.md"
    text = page.read_text(encoding="utf-8")
    for name, table in (("sets", sets_table()), ("switches", switches_table())):
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
        text = pattern.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)  # type: ignore[misc]
    return {
        DOCS / "rules.md": rules_page(),
        DOCS / "constraints.schema.json": json.dumps(json_schema(), indent=1) + "\n",
        page: text,
    }


def main() -> None:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the documents are up to date")
    arguments = parser.parse_args()
    old = [path for path, text in documents().items() if not path.is_file() or path.read_text("utf-8") != text]
    if arguments.check:
        names = ", ".join(path.name for path in old)
        sys.exit(f"out of date: {names}; run tools/check_docs.py" if old else 0)
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
