"""The background look at ended jobs: what was measured becomes the next estimate of the same model.

One day of accounting at a time, so that slurmdbd and radd's answers hardly notice; then only what is new.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from slurm_hooks.config import Config
from slurm_hooks.experience import learn
from slurm_hooks.service import Service
from slurm_hooks.slurm.accounting import Accounting
from slurm_hooks.slurm.commands import SlurmError

log = logging.getLogger("rad.learner")

_DAY_S = 86_400
# Records reach slurmdbd after their jobs have ended; what is younger than this is looked at again.
_OVERLAP_S = 3_600


class Learner:
    """Reads the records of ended jobs every `radd.learn_s` seconds, in a thread."""

    def __init__(
        self, config: Config, service: Service, accounting: Accounting, clock: Callable[[], float] = time.time
    ) -> None:
        self._config = config
        self._service = service
        self._accounting = accounting
        self._clock = clock
        self._since = int(clock()) - config.radd.learn_days * _DAY_S
        self._healthy = True
        self._again_from: int | None = None

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                behind = await asyncio.to_thread(self.once)
            except Exception:
                log.exception("records could not be learned from")
                behind = False
            await asyncio.sleep(1.0 if behind else self._config.radd.learn_s)

    def once(self) -> bool:
        """Read at most one day; whether more waits to be read."""
        now = int(self._clock())
        if self._since > now:  # the clock was ahead, and has been set right
            self._since = now - _OVERLAP_S
        until = min(now, self._since + _DAY_S)
        try:
            jobs = self._accounting.runs(self._since, until)
        except SlurmError as error:
            if self._healthy:
                log.warning("slurmdbd does not answer, nothing is learned meanwhile: %s", error)
                self._again_from = now
            self._healthy = False
            return False
        self._healthy = True
        self._service.experience = learn(self._service.experience, jobs)
        if until < now:
            self._since = until
            return True
        # What ended while slurmdbd was away gets its record only now, from the nodes: once more from there.
        seen = now if self._again_from is None else min(now, self._again_from)
        self._since, self._again_from = seen - _OVERLAP_S, None
        return False
