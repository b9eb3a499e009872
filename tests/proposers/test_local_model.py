"""Local models: what is refused before anything is loaded, and, where the extra `local-model` is installed, the real
loader on a tiny model with an adapter that is made here."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from written_kernels import COMPILED

from asmevo.program import open_program
from asmevo.proposers import Facts, ProposerError
from asmevo.proposers.chat import ChatLimits, Message
from asmevo.proposers.language_model import LanguageModel, ModelLimits
from asmevo.proposers.local_model import PACKAGES, load_local_model

_MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
with_models = pytest.mark.skipif(bool(_MISSING), reason=f"the extra local-model is not installed ({_MISSING})")
HELLO = (Message("user", "v_add_u32 v0, v1, v2"),)
_LENGTH = 4096


def _directory(root: Path, *names: str) -> Path:
    root.mkdir(exist_ok=True)
    for name in names:
        (root / name).write_bytes(b"{}")
    return root


def test_pickles_hub_names_and_other_directories_are_refused(tmp_path: Path) -> None:
    pickled = _directory(tmp_path / "pickled", "config.json", "pytorch_model.bin")
    with pytest.raises(ProposerError, match=r"no \*\.safetensors; weights in other formats are not loaded"):
        load_local_model(pickled)
    with pytest.raises(ProposerError, match="names on a hub are not looked up"):
        load_local_model(Path("somebody/model"))
    with pytest.raises(ProposerError, match=r"no config\.json"):
        load_local_model(_directory(tmp_path / "empty"))
    good = _directory(tmp_path / "good", "config.json", "model.safetensors")
    adapter = _directory(tmp_path / "adapter", "adapter_config.json", "adapter_model.bin")
    with pytest.raises(ProposerError, match=r"adapter has no adapter_model\.safetensors"):
        load_local_model(good, adapter)


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _directory(tmp_path / "good", "config.json", "model.safetensors")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ProposerError, match=r"needs torch, .*pip install 'asm-evo-skill\[local-model\]'"):
        load_local_model(good)


@with_models
def test_a_broken_directory_is_one_sentence(tmp_path: Path) -> None:
    broken = _directory(tmp_path / "broken", "config.json", "model.safetensors")
    with pytest.raises(ProposerError, match="the model cannot be loaded: ") as caught:
        load_local_model(broken)
    assert len(str(caught.value).splitlines()) == 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A two-layer model on bytes and a LoRA adapter with weights of its own; directories of both."""
    import torch
    from peft import LoraConfig, get_peft_model
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(7)
    root = tmp_path_factory.mktemp("models")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate(["<end>", *letters])}
    words = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(root / "base")
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=_LENGTH,
        eos_token_id=None,
        bos_token_id=None,
        initializer_range=0.4,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(root / "base")
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapted.save_pretrained(root / "adapter")
    return root / "base", root / "adapter"


def _by_hand(base: Path, adapter: Path | None, text: str, count: int) -> str:
    """Greedy decoding in the plainest way, the adapter's matrices added to the weights by hand."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(base).eval()
    if adapter is not None:
        settings: dict[str, Any] = json.loads((adapter / "adapter_config.json").read_text())
        scale = settings["lora_alpha"] / settings["r"]
        weights = load_file(adapter / "adapter_model.safetensors")
        named = dict(model.named_parameters())
        with torch.no_grad():
            for key in [each for each in weights if ".lora_A." in each]:
                name = key.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight")
                named[name] += scale * weights[key.replace(".lora_A.", ".lora_B.")] @ weights[key]
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    start = ids.shape[1]
    with torch.no_grad():
        for _ in range(count):
            ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return str(tokenizer.decode(ids[0, start:], skip_special_tokens=True))


@with_models
def test_the_adapter_s_weights_are_in_the_answer(made: tuple[Path, Path]) -> None:
    base, adapter = made
    asked = f"user: {HELLO[0].text}\n\nassistant: "
    limits = ChatLimits(seconds=60, tokens=24)
    plain = load_local_model(base, None, limits).answer(HELLO, {}, 0, lambda: False)
    adapted = load_local_model(base, adapter, limits)
    assert adapted.name == "base with adapter adapter"
    assert plain == _by_hand(base, None, asked, 24)
    assert adapted.answer(HELLO, {}, 0, lambda: False) == _by_hand(base, adapter, asked, 24)
    assert plain != _by_hand(base, adapter, asked, 24)


@with_models
def test_time_and_length_are_bounded(made: tuple[Path, Path]) -> None:
    model = load_local_model(made[0], None, ChatLimits(seconds=0.2, tokens=100_000))
    with pytest.raises(ProposerError, match=r"did not answer within its 0\.2 seconds"):
        model.answer(HELLO, {}, 0, lambda: False)
    with pytest.raises(ProposerError, match="did not answer"):
        model.answer(HELLO, {}, 0, lambda: True)
    with pytest.raises(ProposerError, match=f"takes {_LENGTH} tokens, and the prompt has"):
        model.answer((Message("user", "x" * _LENGTH),), {}, 0, lambda: False)


@with_models
def test_what_an_untrained_model_says_is_told_off(made: tuple[Path, Path], tmp_path: Path) -> None:
    kernel = open_program(COMPILED / "gfx942" / "matmul_f16.hsaco").select()[0]
    from asmevo.proposers.prompt import PromptTemplate

    model = load_local_model(*made, ChatLimits(seconds=30, tokens=16))
    own = LanguageModel(model, PromptTemplate("$block", "test"), ModelLimits(windows=1, rounds=2))
    with pytest.raises(ProposerError, match="never answered in the schema in 2 rounds"):
        list(own.propose(Facts(kernel)))


@with_models
def test_code_that_a_model_brings_is_not_run(made: tuple[Path, Path], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    base = tmp_path / "base"
    base.mkdir()
    for file in made[0].iterdir():
        (base / file.name).write_bytes(file.read_bytes())
    config = json.loads((base / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    (base / "config.json").write_text(json.dumps(config))
    (base / "own.py").write_text(f"open({str(mark)!r}, 'w')\n")
    with pytest.raises(ProposerError, match="cannot be loaded"):
        load_local_model(base)
    assert not mark.exists()
