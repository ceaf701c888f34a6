"""The background look at Slurm: keeps the service's view fresh, takes back pins and holds that hold a job up."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from estimator.types import Method
from predictor.types import Predictor
from slurm_hooks.cluster import ClusterView, PinnedJob, with_smact
from slurm_hooks.config import Config
from slurm_hooks.records import Record
from slurm_hooks.service import Service
from slurm_hooks.slurm.commands import SlurmError

log = logging.getLogger("rad.poller")

_SHORTEST_PAUSE_S = 1.0
# Collecting garbage holds every answer up, on a large cluster for longer than slurmctld waits.
_COLLECT_S = 60.0
_MOST_RELEASES = 3


class Slurm(Protocol):
    """What the poller needs of Slurm."""

    def look(self, partitions: Sequence[str]) -> ClusterView:
        """The cluster as it is now."""

    def record(self, job_id: int) -> Record | None:
        """The record of a job that is not yet done."""

    def unpin(self, job_id: int, share: int | None, *, node: bool) -> None:
        """Let a pending job go to any GPU, with `share` shares of it, and to any node."""

    def release(self, job_id: int) -> None:
        """Let a held job start."""


class Models(Protocol):
    """What the poller needs of the models' folder."""

    def fresh(self) -> Method | None:
        """The estimator, if another version of it became current."""

    def fresh_predictor(self) -> Predictor | None:
        """The predictor, if its weights are others now."""


class Poller:
    """Looks at Slurm every `radd.poll_s` seconds, in a thread, so that no answer waits for it.

    Args:
        config: all settings.
        service: gets the view.
        slurm: where the view comes from.
        models: tells of new versions of models.
        smact: measured SMACT by job id, from memory.
    """

    def __init__(
        self,
        config: Config,
        service: Service,
        slurm: Slurm,
        models: Models | None = None,
        smact: Callable[[], Mapping[int, float]] = dict,
    ) -> None:
        self._config = config
        self._service = service
        self._slurm = slurm
        self._models = models
        self._smact = smact
        self._healthy = True
        self._pinned_since: dict[int, float] = {}
        self._released: dict[int, tuple[int, float]] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        collected = time.monotonic()
        while True:
            started = time.monotonic()
            try:
                await asyncio.to_thread(self.once)
            except Exception:
                # Whatever a look meets, the next one is made: else radd would never pin a job again.
                log.exception("a look at Slurm failed, the view stays as it was")
            if time.monotonic() - collected >= _COLLECT_S:
                gc.collect()
                collected = time.monotonic()
            due = started + self._config.radd.poll_s
            # Jobs that went through unpinned are looked for at once: until they are seen, no other is pinned.
            await asyncio.sleep(_SHORTEST_PAUSE_S)
            while time.monotonic() < due and not self._service.unplaced:
                await asyncio.sleep(_SHORTEST_PAUSE_S / 4)

    def once(self) -> None:
        """One look; a Slurm that does not answer is logged once and leaves the view to grow stale."""
        if self._models is not None:
            self._take_new(self._models)
        try:
            view = with_smact(self._slurm.look(tuple(self._config.partitions)), self._smact())
        except SlurmError as error:
            if self._healthy:
                log.warning("Slurm does not answer, no job is pinned meanwhile: %s", error)
            self._healthy = False
            return
        if not self._healthy:
            log.info("Slurm answers again")
        self._healthy = True
        self._service.update(view)
        log.debug("Slurm as it was at %.3f: %d nodes, %d pins wait", view.taken, len(view.nodes), len(view.pinned))
        self._unpin_waiting(view)
        self._release_held(view)

    def _take_new(self, models: Models) -> None:
        method, predictor = models.fresh(), models.fresh_predictor()
        if method is not None:
            self._service.method = method
            # It stays: to go through it at each collection would hold answers up, and so would a collection now. The
            # garbage of a minute stays with it, which is little, as models seldom come.
            gc.freeze()
        if predictor is not None:
            self._service.predict_with(predictor)

    def _unpin_waiting(self, view: ClusterView) -> None:
        """Take back pins of RAD's that still wait: a pin's node, and its GPU where this Slurm can change a job's type.

        A job may have to wait for its pin long after it was placed: it was requeued, or its node went away.
        """
        since = self._pinned_since
        waiting = [pin for pin in view.pinned if pin.seen]
        self._pinned_since = {pin.job_id: since.get(pin.job_id, view.taken) for pin in waiting}
        if not view.can_retype and len(view.nodes) < 2:
            return
        # Thousands of jobs that their users have pinned must not let the view grow stale: the rest comes next time.
        until = time.monotonic() + self._config.radd.poll_s
        for pin in waiting:
            # The clock may have been set back.
            if abs(view.taken - self._pinned_since[pin.job_id]) < self._config.radd.unpin_after_s:
                continue
            # Tried once in a while, not at every look: Slurm may refuse.
            self._pinned_since[pin.job_id] = view.taken
            try:
                self._unpin(pin, view.can_retype)
            except SlurmError as error:
                log.warning("job %d stays pinned to %s: %s", pin.job_id, pin.type, error)
            if time.monotonic() >= until:
                return

    def _release_held(self, view: ClusterView) -> None:
        """Let RAD's jobs go that Slurm holds: until a node has registered anew, Slurm 22.05 takes it to have no shares.

        Not for ever: no node may be left that has what a job's user asks for beside the GPU.
        """
        self._released = {job_id: self._released.get(job_id, (0, float("-inf"))) for job_id in view.held}
        until = time.monotonic() + self._config.radd.poll_s
        for job_id, (times, last) in self._released.items():
            if times >= _MOST_RELEASES or abs(view.taken - last) < self._config.radd.unpin_after_s:
                continue
            self._released[job_id] = (times + 1, view.taken)
            try:
                record = self._slurm.record(job_id)
                if record is not None and record.is_rewritten:
                    self._slurm.release(job_id)
                    log.info("job %d is held no longer: Slurm took no node to have shares of its GPUs", job_id)
            except SlurmError as error:
                log.warning("job %d stays held: %s", job_id, error)
            if time.monotonic() >= until:
                return

    def _unpin(self, pin: PinnedJob, can_retype: bool) -> None:
        """Take back what RAD chose of a pin, and not what its user asked for.

        Raises:
            SlurmError: if Slurm refuses.
        """
        record = self._slurm.record(pin.job_id)
        if record is None or record.pin != pin.type:
            return
        gpu = can_retype and pin.type not in record.asked.split(":")
        node = pin.nodes == record.node != "" and not record.asked_nodes
        if gpu or node:
            self._slurm.unpin(pin.job_id, pin.share if gpu else None, node=node)
            other = "GPU" if gpu else f"node's {pin.type}"
            log.info("job %d waits for %s of %s no longer: any %s will do", pin.job_id, pin.type, record.node, other)
