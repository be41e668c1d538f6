"""The process of one game of a fleet; `soulslab.fleet.playing` starts it.

A folder holds its settings and the counters through which it is watched. It plays with the newest weights and sends its
steps until it is asked to end, the process that started it has ended, or there has been no learner for some time. It
never waits for the server or the learner, except before its first step.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Final

import gymnasium
import msgspec
import numpy as np

from soulslab.envs.duels import default_options
from soulslab.envs.registration import register_all
from soulslab.errors import ActorError, ConfigError, DemonstrationError, FleetError, SoulslabError
from soulslab.fleet.access import read_access
from soulslab.fleet.evaluation_games import EvaluationEnd
from soulslab.fleet.game_settings import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_REFUSED,
    SETTINGS_NAME,
    GameSettings,
    machine_name,
    open_status,
)
from soulslab.fleet.messages import LEASE_S, Lease, RunDescription, printable, wait_for_description
from soulslab.fleet.redis_actor_end import RedisActorEnd
from soulslab.fleet.run_description import read_policy, with_functions
from soulslab.fleet.spool import Spool
from soulslab.learn.actors.actor_process import PriorityController, reset_priority
from soulslab.learn.actors.actor_status import (
    ActorState,
    LatenessWrapper,
    lateness_quantile_s,
)
from soulslab.learn.actors.transition_actor import Actor, step_shape
from soulslab.learn.demonstrations.writing import DemonstrationWriter, record_vector
from soulslab.learn.environment import TRAINING, environment_seed, make_vector, sizes
from soulslab.learn.live_feed import LiveFeed
from soulslab.learn.network_policy import NetworkPolicy
from soulslab.learn.policy_header import Header
from soulslab.learn.recent_rate import RecentRate
from soulslab.learn.replay.step_rows import row_type
from soulslab.learn.stop_request import StopRequest
from soulslab.learn.torch_device import one_core
from soulslab.version import VERSION

DRAIN_S: Final = 10.0
"""Time in which a game that ends sends what it has not sent (s)."""
ADMISSION_S: Final = 60.0
"""Time in which a learner that runs admits a game (s)."""

_POLL_S: Final = 0.05

_log = logging.getLogger(__name__)


def play_game(folder: Path) -> int:
    """Play until there is a reason to end; return an exit code."""
    # A scan of the imported modules takes 0.2 s, and copies the memory that all games share.
    gc.freeze()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    reset_priority()
    register_all()
    try:
        settings = msgspec.json.decode((folder / SETTINGS_NAME).read_bytes(), type=GameSettings)
        _Game(folder, settings).play()
    except (FleetError, ConfigError) as error:
        _log.error("%s", error)
        return EXIT_REFUSED
    except (SoulslabError, gymnasium.error.Error) as error:
        _log.exception("%s", error)
        return EXIT_FAILED
    return EXIT_OK


class _Game:
    """One start of a game: it gets its settings and weights, plays, and sends what is left."""

    def __init__(self, folder: Path, settings: GameSettings) -> None:
        self._folder = folder
        self._settings = settings
        self._access = read_access(Path(settings.join))
        self._status = open_status(folder)
        self._is_orphan = threading.Event()
        self._state = "waiting"
        self._stepped_at: float | None = None
        self._weights_at: float | None = None
        self._step_rate = RecentRate(time.monotonic(), 0)

    def play(self) -> None:
        """Play until there is a reason to end; raises FleetError or ConfigError if this game is refused."""
        self._status.begin(os.getpid())
        threading.Thread(target=self._watch_parent, name="soulslab-fleet-parent", daemon=True).start()
        with StopRequest() as request, one_core():
            description = wait_for_description(self._access, lambda: self._is_to_wait(request))
            if description is None:
                return
            policy = read_policy(description, self._access.address, self._settings.env_id)
            given = with_functions(policy.header.env_options, self._settings.functions, self._access.address)
            options = {**given, **self._settings.options}
            with closing(make_vector(self._env_id(policy.header), self._settings.n_envs, options)) as env:
                policy.header.check_env(policy.header.env_id, sizes(env), "the learner's policy")
                with self._recorded(env, policy.header) as recorded:
                    self._play(recorded, policy, description, request)

    @contextmanager
    def _recorded(self, env: Any, header: Header) -> Iterator[Any]:
        """Return the environments, whose fights are recorded if this machine wants that.

        The data set has the options of the run, without those of this machine, so that the run can learn from it.
        """
        if not self._settings.record:
            yield env
            return
        try:
            writer = DemonstrationWriter(
                Path(self._settings.record),
                env,
                header.env_options,
                f"{self._settings.role} game of a fleet",
                defaults=default_options(header.env_id),
                is_continued=True,
            )
        except DemonstrationError as error:
            raise ConfigError(str(error), path="--record") from error
        with record_vector(env, writer) as recorded:
            yield recorded

    def _play(self, env: Any, policy: NetworkPolicy[Any], description: RunDescription, request: StopRequest) -> None:
        spool = Spool(self._folder, self._settings.spool_bytes)
        has_values = description.has_values
        kind = row_type(step_shape(policy.header, has_values=has_values))
        end = self._open_end(env.num_envs, kind, spool, policy)
        try:
            end.keep_lease(lambda: self._lease(end))
            entropy = int(end.incarnation, 16)
            policy.seed((description.seed + entropy) % 2**63)
            rng = np.random.default_rng(np.random.SeedSequence([description.seed, entropy]))
            watched = LatenessWrapper(env, self._note_step)
            is_greedy = self._settings.role == "evaluating"
            actor = Actor(watched, policy, end, rng, is_greedy=is_greedy, has_values=has_values)
            if not self._wait_for_admission(end, description, request):
                return
            # Games must not repeat each other's fights, and a restarted game not its own.
            actor.reset(environment_seed((description.seed + entropy) % 2**32, TRAINING))
            with closing(self._open_feed(env)) as actor.live:
                reason = self._step(actor, end, watched, description, request)
            _log.info("%s; %d decisions", reason, actor.env_steps)
        finally:
            self._state = "draining"
            end.close(DRAIN_S)
        self._status.set_state(ActorState.STOPPED)

    def _open_end(self, n_envs: int, kind: np.dtype[Any], spool: Spool, policy: NetworkPolicy[Any]) -> RedisActorEnd:
        settings = self._settings
        if settings.role == "evaluating":
            return EvaluationEnd(self._access, settings.name, kind, spool, policy.weights())
        return RedisActorEnd(self._access, settings.name, n_envs, kind, spool, policy.weights())

    def _open_feed(self, env: Any) -> LiveFeed:
        """Return the live feed of this game; without a path it does nothing."""
        feed = LiveFeed(Path(self._settings.feed))
        if self._settings.feed:
            try:
                Path(self._settings.feed).parent.mkdir(parents=True, exist_ok=True)
                feed.open(env)
            except OSError as error:
                _log.warning("no live feed for the dashboard: %s", error)
        return feed

    def _step(
        self, actor: Actor, end: RedisActorEnd, env: LatenessWrapper, description: RunDescription, request: StopRequest
    ) -> str:
        """Step until there is a reason to end, and return it."""
        _log.info("playing %s as %s", description.header["env_id"], self._settings.name)
        # The present objects live as long as the process; scanning them repeatedly could take 50 ms each time.
        gc.collect()
        gc.freeze()
        priority = PriorityController()
        while (reason := self._reason_to_end(end, description, request)) is None:
            if (state := self._waiting_state(actor, end, env)) is not None:
                self._state = state
                self._status.note_alive()
                time.sleep(_POLL_S)
                continue
            self._state = "playing"
            before = actor.weights_version
            actor.step()
            self._status.set_state(ActorState.PLAYING)  # from the first step on, a shorter deadline applies
            if actor.weights_version != before:
                self._weights_at = time.monotonic()
                self._status.set_version(actor.weights_version)
            priority.after_step(has_pace=env.has_pace)
        return reason

    def _waiting_state(self, actor: Actor, end: RedisActorEnd, env: LatenessWrapper) -> str | None:
        """Return the state of a game that waits before its next step, or None; a game in real time never waits."""
        if end.control.state == "pause" and actor.is_between_episodes:
            return "paused"
        n_allowed = end.order.n_allowed if end.order is not None else 0
        if not env.has_pace and end.n_pushed >= n_allowed:
            return "waiting"
        return None

    def _note_step(self, late_s: float | None) -> None:
        self._stepped_at = time.monotonic()
        self._status.note_step(late_s)

    def _reason_to_end(self, end: RedisActorEnd, description: RunDescription, request: StopRequest) -> str | None:
        if request.signal_name:
            return f"stopped by {request.signal_name}"
        if self._is_orphan.is_set():
            return "the process that started this game has ended"
        if self._status.is_stop_requested:
            return "asked to end"
        if end.control.state == "stop":
            return "the fleet ends"
        if end.order is not None and end.order.refusal:
            raise FleetError(self._settings.name, f"the learner refuses this game: it {end.order.refusal}")
        if end.refusal:
            raise FleetError(self._settings.name, f"{end.refusal}; ask for a new join file")
        if time.monotonic() - end.met_learner_at > description.alone_s:
            return f"no learner has run for {description.alone_s:.0f} s"
        return None

    def _is_to_wait(self, request: StopRequest) -> bool:
        self._status.note_alive()
        return not (request.signal_name or self._is_orphan.is_set() or self._status.is_stop_requested)

    def _wait_for_admission(self, end: RedisActorEnd, description: RunDescription, request: StopRequest) -> bool:
        """Wait until the learner has admitted this game and has published weights; return False if asked to end.

        Raises ActorError if a learner runs, but does not admit this game.
        """
        since = time.monotonic()
        while end.order is None or not end.has_weights:
            if self._reason_to_end(end, description, request) is not None:
                return False
            now = time.monotonic()
            if end.order is not None or now - end.met_learner_at > LEASE_S:
                since = now
            if now - since > ADMISSION_S:
                raise ActorError(
                    self._settings.name,
                    f"the learner runs, but has not admitted this game within {ADMISSION_S:.0f} s; see the log of the "
                    "learner",
                )
            self._status.note_alive()
            time.sleep(_POLL_S)
        return True

    def _env_id(self, header: Header) -> str:
        return self._settings.env_id or header.env_id

    def _lease(self, end: RedisActorEnd) -> Lease:
        """Return the status of this game; called by the sending thread."""
        # Read before the clock: the playing thread may change them meanwhile, and no age is negative.
        stepped_at, weights_at = self._stepped_at, self._weights_at
        now, status = time.monotonic(), self._status.read()
        late_s = lateness_quantile_s(self._status.lateness(), 0.99)
        return Lease(
            worker=self._settings.name,
            incarnation=end.incarnation,
            host=machine_name(),
            state=self._state,  # type: ignore[arg-type]  # one of the texts of `Lease`
            n_envs=self._settings.n_envs,
            soulslab=VERSION,
            role=self._settings.role,
            n_steps=status.n_steps,
            n_pushed=end.n_pushed,
            steps_per_second=self._step_rate.update(now, status.n_steps),
            n_late=status.n_late,
            lateness_p99_ms=1000.0 * late_s if late_s is not None else None,
            n_dropped=end.n_dropped,
            n_unsent_bytes=end.n_unsent_bytes,
            weights_version=status.weights_version,
            age_of_weights_s=now - weights_at if weights_at is not None else None,
            idle_s=now - stepped_at if stepped_at is not None else None,
            n_restarts=self._settings.n_restarts,
            last_fault=printable(self._settings.last_fault),
        )

    def _watch_parent(self) -> None:
        """Wait until the process that started this game has ended."""
        if (parent := parent_process()) is not None:
            parent.join()
            self._is_orphan.set()
