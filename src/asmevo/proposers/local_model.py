"""A language model on this machine: a Hugging Face directory, with a LoRA adapter if one is named.

Needs the extra `local-model` (torch, transformers, peft). Directories only, never a name on a hub: nothing is
downloaded. Weights come from safetensors, which hold numbers only; a directory whose weights are pickles is refused,
and code that a model brings along is not run. Decoding is greedy, and stops when the time is up.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from asmevo.proposers.chat import ChatLimits, Message
from asmevo.proposers.proposer import ProposerError

PACKAGES = ("torch", "transformers", "peft", "safetensors")
"""What a local model needs."""
EXTRA = "pip install 'asm-evo-skill[local-model]'"
"""How to get them."""
_SHOWN_CHARACTERS = 160


class LocalModel(Struct):
    """A model in memory; made by `load_local_model`."""

    name: str
    limits: ChatLimits
    _model: Any
    _tokenizer: Any

    def answer(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, out_of_time: Callable[[], bool]
    ) -> str:
        """See ChatModel. The schema is in the prompt only; `seed` is not needed, decoding is greedy."""
        deadline = time.monotonic() + self.limits.seconds

        def stop() -> bool:
            return time.monotonic() > deadline or out_of_time()

        try:
            said = self._generate(messages, stop)
        except ProposerError:
            raise
        except Exception as error:  # whatever a model's code or memory runs into ends this proposer only
            raise ProposerError(f"failed while it answered: {_first_line(error)}") from error
        if stop():
            raise ProposerError(f"did not answer within its {self.limits.seconds:g} seconds or the search's budget")
        return said

    def _generate(self, messages: Sequence[Message], stop: Callable[[], bool]) -> str:
        import torch
        from transformers import StoppingCriteria, StoppingCriteriaList

        class OutOfTime(StoppingCriteria):  # type: ignore[misc]
            def __call__(self, input_ids: Any, scores: Any, **more: Any) -> Any:
                return torch.full((input_ids.shape[0],), stop(), dtype=torch.bool, device=input_ids.device)

        asked = self._tokenizer(_as_text(self._tokenizer, messages), return_tensors="pt", add_special_tokens=False)
        length = asked["input_ids"].shape[1]
        room = self._room(length)
        with torch.inference_mode():
            made = self._model.generate(
                input_ids=asked["input_ids"].to(self._model.device),
                attention_mask=asked["attention_mask"].to(self._model.device),
                max_new_tokens=room,
                do_sample=False,
                stopping_criteria=StoppingCriteriaList([OutOfTime()]),
                pad_token_id=self._padding(),
            )
        return str(self._tokenizer.decode(made[0][length:], skip_special_tokens=True))

    def _room(self, length: int) -> int:
        """Tokens that may be made. Raises ProposerError when the prompt alone is too long for the model."""
        most: int | None = getattr(self._model.config, "max_position_embeddings", None)
        if most is None:
            return self.limits.tokens
        if length >= most:
            raise ProposerError(f"takes {most} tokens, and the prompt has {length}; choose fewer or smaller windows")
        return min(self.limits.tokens, most - length)

    def _padding(self) -> int | None:
        padding: int | None = self._tokenizer.pad_token_id
        return padding if padding is not None else self._tokenizer.eos_token_id


def load_local_model(path: Path, adapter: Path | None = None, limits: ChatLimits | None = None) -> LocalModel:
    """Loads a model from a directory. Raises ProposerError in one sentence."""
    _refuse_unsafe(path, "config.json", "*.safetensors", "model")
    if adapter is not None:
        _refuse_unsafe(adapter, "adapter_config.json", "adapter_model.safetensors", "adapter")
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise ProposerError(f"a local model needs {', '.join(missing)}: {EXTRA}")
    try:
        model, tokenizer = _load(path, adapter)
    except Exception as error:  # the libraries raise whatever they like for a broken directory
        raise ProposerError(f"{path}: the model cannot be loaded: {_first_line(error)}") from error
    name = path.name if adapter is None else f"{path.name} with adapter {adapter.name}"
    return LocalModel(name, limits or ChatLimits(), model, tokenizer)


def _load(path: Path, adapter: Path | None) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    known: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(str(path), **known)
    model = AutoModelForCausalLM.from_pretrained(str(path), use_safetensors=True, **known)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, str(adapter), local_files_only=True, use_safetensors=True)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), tokenizer


def _refuse_unsafe(directory: Path, config: str, weights: str, what: str) -> None:
    if not directory.is_dir():
        raise ProposerError(f"{directory}: no directory of a {what} (names on a hub are not looked up)")
    if not (directory / config).is_file():
        raise ProposerError(f"{directory}: no {what}, it has no {config}")
    if not any(directory.glob(weights)):
        raise ProposerError(f"{directory}: the {what} has no {weights}; weights in other formats are not loaded")


def _as_text(tokenizer: Any, messages: Sequence[Message]) -> str:
    if tokenizer.chat_template:
        turns = [{"role": each.role, "content": each.text} for each in messages]
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    return "".join(f"{each.role}: {each.text}\n\n" for each in messages) + "assistant: "


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_SHOWN_CHARACTERS]
