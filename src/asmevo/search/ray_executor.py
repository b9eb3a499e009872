"""Islands as actors of a Ray cluster: the one that the environment names (`RAY_ADDRESS`), else one on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from asmevo.search.executors import Epoch, EpochAnswer, ExecutorError, Settlement, Settler, gathered


class RayActors:
    """One actor for each island. Nodes of a cluster need this package installed."""

    def __init__(self, wanted: Sequence[Settlement]) -> None:
        try:
            import ray
        except ImportError as error:
            words = "ray is not installed: pip install 'asm-evo-skill[ray]'"
            raise ExecutorError("--executor ray", words) from error
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        if self._started:
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR")
        actor = ray.remote(num_cpus=1)(Settler)
        self._actors = [actor.remote(each) for each in wanted]

    def epoch(self, epochs: Sequence[Epoch]) -> list[EpochAnswer | str]:
        """See Executor."""
        running = [actor.epoch.remote(epoch) for actor, epoch in zip(self._actors, epochs, strict=True)]
        return [gathered(partial(self._ray.get, each)) for each in running]

    def close(self) -> None:
        """See Executor."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._started:
            self._ray.shutdown()
