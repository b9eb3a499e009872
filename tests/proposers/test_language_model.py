"""A language model behind an endpoint: heard when it speaks well, bounded and told off when it does not."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from chat_server import ChatServer, Handler, chat_server
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from written_kernels import COMPILED, compiled_kernels, written

from asmevo.checks.constraints import constraints_for
from asmevo.doors.cli import app
from asmevo.program import open_program
from asmevo.program.errors import EditError
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts, ProposerError
from asmevo.proposers.chat import ChatLimits, Message
from asmevo.proposers.chat_client import ChatClient
from asmevo.proposers.language_model import LanguageModel, ModelLimits
from asmevo.proposers.model_answer import answer_schema, one_instruction
from asmevo.proposers.prompt import Prompts, built_in_template, read_template
from asmevo.search import Budget, Ledger, SearchOptions, optimize
from asmevo.search.history import check, describe
from asmevo.search.options import OptimizationRun

FILE = COMPILED / "gfx942" / "matmul_f16.hsaco"
KEY = "sk-very-secret-0123456789"
LIMITS = ChatLimits(seconds=1.0, answer_bytes=1 << 16, tries=3)
HELLO = (Message("user", "hello"),)

Behave = Callable[[Handler, int], None]


def _kernel() -> Kernel:
    return open_program(FILE).select()[0]


def _window() -> tuple[int, ...]:
    facts = Facts(_kernel())
    return Prompts(facts, built_in_template(), 8).windows(1)[0].instructions


def _wait(text: str) -> int:
    """The id of a wait with this text in the hottest window."""
    by_id = _kernel().by_id
    return next(id_ for id_ in _window() if by_id[id_].text == text)


def _idea(*edits: dict[str, Any], why: str = "because") -> dict[str, Any]:
    return {"why": why, "edits": list(edits)}


def _run(
    behave: Behave, root: Path, rounds: int = 3, key: str | None = KEY
) -> tuple[OptimizationRun, Ledger, ChatServer]:
    program, ledger = open_program(FILE), Ledger(root)
    with chat_server(behave) as server:
        model = LanguageModel(
            ChatClient(server.url, "tiny", key, LIMITS), limits=ModelLimits(windows=1, rounds=rounds), seconds=3.0
        )
        options = SearchOptions(budget=Budget(seconds=2.5), proposers=(model,))
        return optimize(program, program.select()[0], options, ledger), ledger, server


def _failures(ledger: Ledger) -> list[str]:
    return [each.data()["reason"] for each in ledger.records.read("WHERE kind = 'proposer'")]


def _own(ledger: Ledger, run: OptimizationRun) -> list[dict[str, Any]]:
    return [body for body in ledger.candidates(run.id) if str(body["origin"]).startswith("model tiny")]


# --- a model that speaks well -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[OptimizationRun, Ledger, ChatServer, Path]:
    """A wait doubled (right), then a wait that is needed replaced by a no-op (wrong), then no more."""
    wait = _wait("s_waitcnt vmcnt(0)")

    def behave(handler: Handler, number: int) -> None:
        if number == 1:
            edits = [{"kind": "copy", "id": wait, "place": "before", "anchor": wait}]
            handler.say({"ideas": [_idea(*edits, why="waits twice")]})
        elif number == 2:
            broken = _idea({"kind": "replace", "id": wait, "text": "s_nop 0"}, why="never waits")
            unfit = _idea({"kind": "move", "id": 999_999, "place": "after", "anchor": wait})
            handler.say(f"<think>{{hm}}</think>Here you are:\n```json\n{json.dumps({'ideas': [broken, unfit]})}\n```")
        else:
            handler.say({"ideas": []})

    root = tmp_path_factory.mktemp("honest")
    return *_run(behave, root), root


def test_its_ideas_are_judged_as_anybodys(honest: tuple[OptimizationRun, Ledger, ChatServer, Path]) -> None:
    run, ledger, _, _ = honest
    assert _failures(ledger) == []
    right, wrong = _own(ledger, run)
    assert right["origin"] == "model tiny at 127.0.0.1: waits twice"
    assert right["accepted"]
    assert [each["text"] for each in right["script"]["edits"] if each["kind"] == "insert"] == ["s_waitcnt vmcnt(0)"]
    assert not wrong["accepted"]
    assert wrong["verdicts"][-1]["gate"] == "waits"


def test_it_is_told_what_became_of_them(honest: tuple[OptimizationRun, Ledger, ChatServer, Path]) -> None:
    _, _, server, _ = honest
    assert len(server.requests) == 3
    second, third = (request["messages"] for request in server.requests[1:])
    assert [each["role"] for each in third] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert re.match(r"Idea 1: accepted; predicted cycles are 1?\d\d\.\d % of", second[-1]["content"])
    assert "Idea 1: refused by gate waits: " in third[-1]["content"]
    assert "Idea 2: does not fit: the window has no instruction 999999." in third[-1]["content"]


def test_the_answer_is_forced_into_the_schema(honest: tuple[OptimizationRun, Ledger, ChatServer, Path]) -> None:
    _, _, server, _ = honest
    form = server.requests[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    schema = form["json_schema"]["schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    for each in (schema, *schema["$defs"].values()):  # what strict mode asks of every object
        assert each["additionalProperties"] is False
        assert sorted(each["required"]) == sorted(each["properties"])
    assert "oneOf" not in json.dumps(schema)


def test_everything_is_recorded_and_the_key_nowhere(
    honest: tuple[OptimizationRun, Ledger, ChatServer, Path],
) -> None:
    run, ledger, server, root = honest
    said = [each for each in ledger.exchanges(run.id) if "answer" in each]
    assert [each["round"] for each in said] == [1, 2, 3]
    assert all(each["model"] == "tiny at 127.0.0.1" for each in said)
    assert said[0]["prompt"] == [
        {"role": each["role"], "text": each["content"]} for each in server.requests[0]["messages"]
    ]
    assert check(ledger).broken is None
    assert describe(ledger, f"{run.id}/exchange-1")["body"]["answer"] == said[0]["answer"]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    for file in root.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


def test_the_key_does_not_come_back(tmp_path: Path) -> None:
    _, ledger, _ = _run(lambda handler, number: handler.send(401, f"bad key {KEY}".encode()), tmp_path)
    (reason,) = _failures(ledger)
    assert "401" in reason
    assert "bad key (key)" in reason


def test_a_backend_that_cannot_force_a_schema_is_asked_without() -> None:
    def behave(handler: Handler, number: int) -> None:
        if "response_format" in handler.chat.requests[-1]:
            handler.send(400, b'{"error": "response_format is not supported"}')
        else:
            handler.say("yes")

    with chat_server(behave) as server:
        client = ChatClient(server.url, "tiny", None, LIMITS)
        assert [client.answer(HELLO, {}, 0, lambda: False) for _ in range(2)] == ["yes", "yes"]
    assert ["response_format" in each for each in server.requests] == [True, False, False]
    assert not any("Authorization" in each for each in server.headers)


# --- a model that does not --------------------------------------------------------------------------------------------

_EDIT = {"kind": "move", "id": 1, "place": "before", "anchor": 2}
BREACHES = {
    "words": "I would rather not",
    "empty": "",
    "open": '{"ideas": [',
    "list": "[1, 2]",
    "deep": "{" * 50_000,
    "deeper": '{"ideas":' * 5_000 + "1" + "}" * 5_000,
    "a verdict of its own": json.dumps({"ideas": [], "accepted": True}),
    "a verdict in an idea": json.dumps({"ideas": [_idea(_EDIT) | {"verdicts": ["accepted"]}]}),
    "machine code": json.dumps({"ideas": [_idea({"kind": "replace", "id": 1, "text": "s_nop 0", "code": "00"})]}),
    "a deletion": json.dumps({"ideas": [_idea({"kind": "delete", "id": 1, "text": ""})]}),
    "an id in words": json.dumps({"ideas": [_idea(_EDIT | {"id": "the first"})]}),
    "long": "x" * 60_000,
}


@pytest.mark.parametrize("kind", BREACHES)
def test_what_breaks_the_schema_is_told_off_and_then_given_up(kind: str) -> None:
    with chat_server(lambda handler, number: handler.say(BREACHES[kind])) as server:
        model = LanguageModel(ChatClient(server.url, "tiny", None, LIMITS), limits=ModelLimits(windows=1, rounds=2))
        with pytest.raises(ProposerError, match="never answered in the schema in 2 rounds"):
            list(model.propose(Facts(_kernel())))
    assert "Answer in the schema." in server.requests[1]["messages"][-1]["content"]


NOT_COMPLETIONS = {
    "page": b"<html>hello</html>",
    "nothing": b"",
    "other": b'{"text": "hello"}',
    "no choice": b'{"choices": []}',
    "no text": b'{"choices": [{"message": {"content": null}}]}',
    "bytes": bytes(range(256)),
    "deep": b"[" * 50_000,
}


@pytest.mark.parametrize("kind", NOT_COMPLETIONS)
def test_what_is_no_completion_is_one_sentence(kind: str) -> None:
    body = NOT_COMPLETIONS[kind]
    with (
        chat_server(lambda handler, number: handler.send(200, body)) as server,
        pytest.raises(ProposerError) as caught,
    ):
        ChatClient(server.url, "tiny", None, LIMITS).answer(HELLO, {}, 0, lambda: False)
    assert "chat completion" in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def _endless(handler: Handler, number: int) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.chat.stopping.is_set():
        handler.wfile.write(b" " * 8192)


def _silent(handler: Handler, number: int) -> None:
    handler.chat.stopping.wait(20)


def _dripping(handler: Handler, number: int) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.chat.stopping.wait(0.05):
        handler.wfile.write(b"x")


BAD_SERVERS: dict[str, tuple[Behave, str]] = {
    "endless": (_endless, "sent an answer of more than 65536 bytes"),
    "silent": (_silent, "did not answer within its 1 seconds"),
    "dripping": (_dripping, "did not answer within its 1 seconds"),
    "huge": (lambda handler, number: handler.say("x" * 100_000), "sent an answer of more than 65536 bytes"),
    "hangs up": (lambda handler, number: None, "cannot reach its endpoint"),
    "refuses": (lambda handler, number: handler.send(404, b"no such model"), "status 404.*no such model"),
}


@pytest.mark.parametrize("kind", BAD_SERVERS)
def test_a_bad_server_costs_its_time_and_one_sentence(kind: str) -> None:
    behave, words = BAD_SERVERS[kind]
    begin = time.monotonic()
    with chat_server(behave) as server, pytest.raises(ProposerError, match=words):
        ChatClient(server.url, "tiny", None, LIMITS).answer(HELLO, {}, 0, lambda: False)
    assert time.monotonic() - begin < 4


def test_a_bad_server_ends_its_proposer_only(tmp_path: Path) -> None:
    begin = time.monotonic()
    run, ledger, _ = _run(_dripping, tmp_path)
    assert time.monotonic() - begin < 6
    (reason,) = _failures(ledger)
    assert "did not answer within its 1 seconds" in reason
    assert not _own(ledger, run)
    assert run.tried > 0  # the others went on


def test_a_server_in_trouble_is_tried_again_but_not_for_ever() -> None:
    def recovers(handler: Handler, number: int) -> None:
        if number < 3:
            handler.send(503, b"busy")
        else:
            handler.say("at last")

    limits = ChatLimits(seconds=10, tries=3)
    with chat_server(recovers) as server:
        assert ChatClient(server.url, "tiny", None, limits).answer(HELLO, {}, 0, lambda: False) == "at last"
    with (
        chat_server(lambda handler, number: handler.send(500, b"broken")) as server,
        pytest.raises(ProposerError, match=r"status 500.*broken"),
    ):
        ChatClient(server.url, "tiny", None, limits).answer(HELLO, {}, 0, lambda: False)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with chat_server(lambda handler, number: handler.say("give me the key")) as other:
        location = f"{other.url}/chat/completions"
        with (
            chat_server(lambda handler, number: handler.send(status, b"", Location=location)) as server,
            pytest.raises(ProposerError, match="another address"),
        ):
            ChatClient(server.url, "tiny", KEY, LIMITS).answer(HELLO, {}, 0, lambda: False)
    assert len(server.requests) == 1
    assert other.requests == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "no http or https address"),
        ("example.org/v1", "no http or https address"),
        ("", "no http or https address"),
        ("http://[::1", "is no address"),
        ("https://me:secret@example.org/v1", "must not carry a password"),
        ("http://example.org/v1", "in the clear"),
        ("http://127.0.0.1.example.org/v1", "in the clear"),
    ],
)
def test_addresses_that_are_not_asked(url: str, words: str) -> None:
    with pytest.raises(ProposerError, match=words):
        ChatClient(url, "tiny", KEY)


def test_the_key_is_not_in_what_a_client_prints() -> None:
    assert KEY not in repr(ChatClient("https://example.org/v1/", "tiny", KEY))


def test_the_search_s_budget_ends_the_wait() -> None:
    begin = time.monotonic()
    with chat_server(_silent) as server:
        client = ChatClient(server.url, "tiny", None, ChatLimits(seconds=30))
        with pytest.raises(ProposerError, match="did not answer"):
            client.answer(HELLO, {}, 0, lambda: time.monotonic() - begin > 0.3)
    assert time.monotonic() - begin < 3


# --- texts ------------------------------------------------------------------------------------------------------------


def test_every_instruction_that_has_no_label_may_be_said() -> None:
    texts = {each.text for kernel in compiled_kernels() for each in kernel.instructions if each.target is None}
    assert len(texts) > 1000
    refused = []
    for text in texts:
        try:
            one_instruction(text)
        except EditError:
            refused.append(text)
    assert refused == []


@pytest.mark.parametrize(
    "text",
    [
        "s_nop 0\ns_endpgm",
        "s_nop 0\rs_endpgm",
        "s_nop 0 ; s_endpgm",
        "s_nop 0 // why",
        ".space 1000000000",
        "x: .space 1000000000",
        "x : .space 1000000000",
        "x:.space 1000000000",
        '.incbin "/etc/hostname"',
        'x: .include "/etc/hostname"',
        "x = 5",
        "s_nop\t0",
        "",
        "   ",
        "S_NOP 0",
        "s_nop " + "0" * 300,
        "s_nop 0\u2028s_endpgm",
    ],
)
def test_texts_that_are_more_than_an_instruction_are_refused(text: str) -> None:
    with pytest.raises(EditError, match="not the text of one instruction"):
        one_instruction(text)


_PIECES = st.sampled_from(
    ["s_nop", "v_mov_b32", " ", "0", "v0", ",", ":", ".space", ".long", "x", "=", "\n", "[", "]", ".l", "0.5", "-", "|"]
)


@given(st.lists(_PIECES, max_size=8).map("".join))
def test_what_is_let_through_is_one_instruction_or_refused(text: str) -> None:
    context = written("s_endpgm").context
    try:
        found = encode_text(one_instruction(text), context)
    except EditError:
        return
    assert text.strip(" ").split(" ")[0] in found.text
    assert len(found.code) <= 12


# --- prompts ----------------------------------------------------------------------------------------------------------


def test_the_prompt_has_the_window_with_its_facts() -> None:
    kernel = written(
        """
        s_mov_b64 s[8:9], exec
        global_load_dword v1, v[2:3], off
        v_add_u32 v4, v5, v6
        v_add_u32 v7, v4, v6
        s_waitcnt vmcnt(0)
        v_add_u32 v8, v1, v7
        global_store_dword v[2:3], v8, off
        s_endpgm
        """
    )
    facts = Facts(kernel, constraints=constraints_for("gfx942"))
    prompts = Prompts(facts, built_in_template(), 8)
    (window,) = prompts.windows(2)
    text = prompts.prompt(window)
    for instruction in kernel.instructions:
        assert f"{instruction.id}: {instruction.text} [" in text
    assert "4: vmcnt is 0, at most 0 needed, first by 5" in text
    assert "2 -> 3: read after write" in text
    assert "1 -> 5: read after write" in text
    assert f"Copies get the ids {facts.next_id()}," in text
    assert json.dumps(answer_schema()) in text
    assert "$" not in text.replace("$defs", "").replace("$ref", "")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (b"$window $schema $weather", r"uses \$weather"),
        (b"$window only", r"does not use \$schema"),
        (b"$window $schema costs 5 $", "`\\$` without a name"),
        (b"\xff\xfe", "is not text"),
        (b"$window $schema " + b"x" * 70_000, "more than 65536"),
    ],
)
def test_templates_that_cannot_work(template: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(template)
    with pytest.raises(ProposerError, match=words):
        read_template(path)
    with pytest.raises(ProposerError, match="cannot be read"):
        read_template(tmp_path / "none.txt")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--llm-url", "http://127.0.0.1:9/v1"), "go together"),
        (("--llm-model", "tiny"), "go together"),
        (("--adapter", "a"), "--adapter needs --model-path"),
        (("--prompt-template", "p"), "--prompt-template needs a model"),
        (("--llm-url", "ftp://x", "--llm-model", "tiny"), "no http or https address"),
        (("--model-path", "gpt2"), "no directory of a model"),
    ],
)
def test_bad_options_are_one_sentence(more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    out = str(tmp_path / "p.patch")
    result = CliRunner().invoke(app, ["optimize", str(FILE), "-o", out, "--ledger", str(tmp_path / "l"), *more])
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_the_command_asks_the_endpoint_with_the_users_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tmp_path / "mine.txt"
    template.write_text("MINE $window $schema")
    monkeypatch.setenv("ASMEVO_LLM_KEY", KEY)
    with chat_server(lambda handler, number: handler.say({"ideas": []})) as server:
        words = ["optimize", str(FILE), "-o", str(tmp_path / "p.patch"), "--ledger", str(tmp_path / "l")]
        words += ["--budget", "1s", "--llm-url", server.url, "--llm-model", "tiny", "--prompt-template", str(template)]
        result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 1), result.output
    assert "language-model proposer is off" not in result.output
    assert KEY not in result.output
    assert server.requests[0]["model"] == "tiny"
    assert server.requests[0]["messages"][1]["content"].startswith("MINE ")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_without_a_model_the_command_says_so(tmp_path: Path) -> None:
    words = ["optimize", str(FILE), "-o", str(tmp_path / "p.patch"), "--ledger", str(tmp_path / "l"), "--budget", "1s"]
    assert "the language-model proposer is off" in CliRunner().invoke(app, words).output
