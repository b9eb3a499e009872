"""Settings of the `asm-skill` command: `~/.asm-skill/config.yaml`, made with sensible values on first use."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from asmevo.checks.documents import DocumentError, read_document
from asmevo.doors.proposing import Wanted

_FIRST = """\
# Settings of asm-skill. Every key may be left out.
gpu_target: null                     # for assembly that does not name its target, e.g. gfx942
roc_path: null                       # a ROCm installation, to use its LLVM and its release's constraints
cache_dir: ~/.asm-skill/cache        # the ledger and compiled emulator code
ai_engine: none                      # none, endpoint (llm_url, llm_model), local (model_path, adapter), program
llm_url: null                        # an OpenAI-compatible endpoint; its key comes from ASMEVO_LLM_KEY
llm_model: null
model_path: null                     # the directory of a Hugging Face model
adapter: null                        # the directory of a LoRA adapter
custom_agent_path: null              # a program that proposes (docs/proposers.md), for ai_engine: program
templates: ~/.asm-skill/templates    # *.yaml there: own rewrite templates; prompt.txt: instead of the built-in prompt
"""
_PROMPT = "prompt.txt"
_RELEASE = re.compile(r"\d+(\.\d+){0,2}")


class SkillConfig(BaseModel):
    """The settings; see the file that first use writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpu_target: str | None = None
    roc_path: Path | None = None
    cache_dir: Path = Path("~/.asm-skill/cache")
    ai_engine: Literal["none", "endpoint", "local", "program"] = "none"
    llm_url: str | None = None
    llm_model: str | None = None
    model_path: Path | None = None
    adapter: Path | None = None
    custom_agent_path: Path | None = None
    templates: Path = Path("~/.asm-skill/templates")

    @property
    def ledger(self) -> Path:
        """Where runs are recorded."""
        return self.cache_dir.expanduser() / "ledger"

    def rocm(self) -> str | None:
        """The release of the ROCm installation, None where it does not say."""
        if self.roc_path is None:
            return None
        try:
            words = (self.roc_path.expanduser() / ".info" / "version").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        found = _RELEASE.match(words)
        return found.group() if found else None

    def use_installation(self, file: Path) -> None:
        """Points this process to the installation's LLVM and to the cache, where the environment does not already."""
        os.environ.setdefault("ASMEVO_CACHE", str(self.cache_dir.expanduser() / "code"))
        if self.roc_path is not None:
            tools = self.roc_path.expanduser() / "llvm" / "bin"
            if not tools.is_dir():
                raise DocumentError(str(file), f"there is no {tools}", key="roc_path")
            os.environ.setdefault("ASMEVO_LLVM", str(tools))

    def template_files(self) -> list[Path]:
        """Rewrite templates of the user's own."""
        return sorted(self.templates.expanduser().glob("*.yaml"))

    def wanted(self, file: Path) -> Wanted:
        """The proposers of the engine. Raises DocumentError when a setting that it needs is missing."""
        if self.ai_engine == "none":
            return Wanted()
        if self.ai_engine == "program":
            program = Path(self._needed(file, "custom_agent_path")).expanduser()
            command = [sys.executable, str(program)] if program.suffix == ".py" else [str(program)]
            return Wanted(commands=(shlex.join(command),))
        own = self.templates.expanduser() / _PROMPT
        template = own if own.is_file() else None
        if self.ai_engine == "endpoint":
            url, model = self._needed(file, "llm_url"), self._needed(file, "llm_model")
            return Wanted(llm_url=url, llm_model=model, prompt_template=template)
        adapter = self.adapter.expanduser() if self.adapter is not None else None
        path = Path(self._needed(file, "model_path")).expanduser()
        return Wanted(model_path=path, adapter=adapter, prompt_template=template)

    def _needed(self, file: Path, key: str) -> str:
        value = getattr(self, key)
        if value is None:
            raise DocumentError(str(file), f"`ai_engine: {self.ai_engine}` needs it", key=key)
        return str(value)


def config_file() -> Path:
    """Where the settings are."""
    return Path("~/.asm-skill/config.yaml").expanduser()


def read_config() -> SkillConfig:
    """The settings; writes the file first where there is none. Raises DocumentError, or OSError when it cannot."""
    file = config_file()
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "templates").mkdir(exist_ok=True)
        file.write_text(_FIRST, encoding="utf-8")
    config, _ = read_document(file, str(file), SkillConfig)
    return config
