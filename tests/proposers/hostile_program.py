"""A proposer that misbehaves in the way that its argument names; `honest` does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def _say(message: object) -> None:
    print(json.dumps(message), flush=True)


def main(kind: str) -> None:
    if kind == "crash before reading":
        sys.exit("no idea at all")
    task = json.loads(sys.stdin.readline())
    kernel = task["kernel"]
    first = kernel["blocks"][0]["instructions"][0]
    waits = [i for b in kernel["blocks"] for i in b["instructions"] if i["text"].startswith("s_waitcnt")]

    def script(*edits: object, **changed: object) -> dict[str, object]:
        return {"type": "script", "base": kernel["hash"], "kernel": kernel["name"], "edits": list(edits)} | changed

    nop = {"code": "000080bf", "text": "s_nop 0"}
    insertion = {"kind": "insert", "id": task["facts"]["next_id"], "before": first["id"], **nop}
    if kind == "honest":
        before = waits[-1]["id"]
        _say(script(insertion | {"before": before}, origin="a no-op before the first wait"))
        verdict = json.loads(sys.stdin.readline())
        assert verdict["accepted"], verdict
        _say(script({"kind": "delete", "id": waits[-1]["id"], "text": ""}))
        verdict = json.loads(sys.stdin.readline())
        assert (verdict["accepted"], verdict["gate"]) == (False, "waits"), verdict
        _say({"type": "done"})
    elif kind == "lies":
        _say(script({"kind": "replace", "id": waits[-1]["id"], "code": nop["code"], "text": waits[-1]["text"]}))
        assert not json.loads(sys.stdin.readline())["accepted"]
        _say({"type": "done"})
    elif kind == "unfit":
        for edit in (
            {"kind": "delete", "id": 10**9, "text": ""},
            {"kind": "move", "id": first["id"], "before": first["id"]},
            {"kind": "move", "id": first["id"]},
            {"kind": "reorder", "block": -1, "order": []},
            {"kind": "replace", "id": first["id"], "code": "zz", "text": ""},
            {"kind": "replace", "id": first["id"], "code": "", "text": ""},
            {"kind": "replace", "id": first["id"], "code": "ffffffffffffffff", "text": ""},
            insertion | {"id": first["id"]},
        ):
            _say(script(edit))
            assert not json.loads(sys.stdin.readline())["accepted"]
        _say({"type": "done"})
    elif kind == "everything deleted":
        every = [i["id"] for b in kernel["blocks"] for i in b["instructions"]]
        _say(script(*({"kind": "delete", "id": each, "text": ""} for each in every)))
        assert not json.loads(sys.stdin.readline())["accepted"]
        _say({"type": "done"})
    elif kind == "flood":
        for number in range(10**9):
            code = (0xBF800000 + number % 16).to_bytes(4, "little").hex()
            place = kernel["blocks"][0]["instructions"][number // 16 % len(kernel["blocks"][0]["instructions"])]
            _say(script(insertion | {"code": code, "before": place["id"]}))
            sys.stdin.readline()
    elif kind == "many edits":
        edits = ({**insertion, "id": insertion["id"] + number} for number in range(8000))
        _say(script(*edits))
    elif kind == "no JSON":
        print("I think that you should delete the waits.", flush=True)
    elif kind == "verdict":
        _say({"type": "verdict", "accepted": True})
    elif kind == "schema":
        _say(script(insertion, verdicts=[{"gate": "equivalence", "kind": "accepted"}]))
    elif kind == "deep":
        print("[" * 200_000, flush=True)
    elif kind == "another kernel":
        _say(script(insertion, kernel="victim"))
    elif kind == "another base":
        _say(script(insertion, base="0" * 64))
    elif kind == "huge":
        sys.stdout.write("x" * (64 << 20))
    elif kind == "endless scripts":
        while True:
            _say(script(insertion))
    elif kind == "loops":
        while True:
            pass
    elif kind == "crash":
        raise RuntimeError("my own fault")
    elif kind == "signal":
        os.abort()
    elif kind == "closes":
        os.close(1)
        time.sleep(60)
    elif kind == "child":
        child = subprocess.Popen(["sleep", "60"])
        print(child.pid, file=open(sys.argv[2], "w"), flush=True)  # noqa: SIM115
        time.sleep(60)
    elif kind == "memory":
        held = [bytearray(1 << 28) for _ in range(1 << 10)]
        _say({"type": "done", "held": len(held)})


if __name__ == "__main__":
    main(sys.argv[1])
