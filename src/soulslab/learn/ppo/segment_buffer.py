"""Steps of actors, cut into segments of equal length that make up the rollouts of PPO.

A stream of rows is a sequence of episodes, perhaps of several games; see `soulslab.learn.replay.step_rows`. A segment
is T consecutive steps of a stream, and the row after them, from whose observation the last value is bootstrapped. It
may contain several episodes. A rollout consists of N segments of any streams, so an actor that is slow or has ended
delays nothing but its own steps.

Shapes: T steps, N segments, E streams, M rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from soulslab.learn.archive import Tensors
from soulslab.learn.policy import Policy, masked_log_probs
from soulslab.learn.ppo.rollout import Rollout
from soulslab.learn.replay.step_rows import Outcome, StepShape, as_bytes, join_rows, pick_rows, row_type


class _Segment(NamedTuple):
    """Rows with ``n_context`` earlier ones, whose frames are in the stacks of the first steps."""

    rows: NDArray[Any]
    n_context: int


class SegmentBuffer:
    """The rows that no rollout has used yet, as a `soulslab.learn.ppo.rollout.RolloutSource`."""

    def __init__(self, shape: StepShape, n_streams: int, n_steps: int, gamma: float) -> None:
        """Make an empty buffer of E streams, for rollouts of T = ``n_steps`` and N = ``n_streams``."""
        self._shape = shape
        self._n_steps = n_steps
        self._gamma = gamma
        empty = _Segment(np.empty(0, row_type(shape)), 0)
        self._streams = [empty] * n_streams
        self._n_segments = np.zeros(n_streams, np.int64)  # complete ones of each stream
        self._next = 0

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows, those of each stream in order."""
        for stream in np.flatnonzero(np.bincount(rows["stream"])).tolist():
            waiting = self._streams[stream]
            joined = join_rows([waiting.rows, pick_rows(rows, rows["stream"] == stream)])
            _truncate_broken_episodes(joined)
            self._set(stream, waiting._replace(rows=joined))

    @property
    def is_full(self) -> bool:
        """Whether there are enough segments for a rollout."""
        return bool(self._n_segments.sum() >= len(self._streams))

    def collect(self, policy: Policy, rollout: Rollout, generator: torch.Generator) -> None:
        """Move the oldest segments into a rollout, evenly from all streams that have some; see `RolloutSource`.

        The log-probabilities and the values are those of the policy at present. The weights of V-trace correct for the
        policies with which the actors chose their actions.
        """
        del generator  # nothing is drawn
        segments: list[_Segment] = []
        while len(segments) < len(self._streams):
            if self._n_segments[self._next]:
                segments.append(self._cut(self._next))
            self._next = (self._next + 1) % len(self._streams)
        rows = join_rows([segment.rows for segment in segments])
        steps = self._find_steps(segments)
        columns = pick_rows(rows, steps)  # (T, N)
        outcomes = columns["outcome"]
        rollout.rewards[:] = columns["reward"]
        rollout.discounts[:] = self._gamma ** columns["n_decisions"].astype(np.float64)
        rollout.dones[:] = (outcomes == Outcome.TERMINATED) | (outcomes == Outcome.TRUNCATED)
        rollout.actions.copy_(torch.from_numpy(columns["action"].astype(np.int64)[..., None]))
        blocked = np.unpackbits(columns["blocked"], axis=-1, count=self._shape.n_actions).astype(np.bool_)
        rollout.blocked.copy_(torch.from_numpy(blocked))
        with torch.inference_mode():
            logits, values = self._estimate(policy, rows, steps, segments, rollout)
            all_log_probs = masked_log_probs(logits, rollout.blocked.flatten(0, 1)).view(*steps.shape, -1)
            rollout.log_probs.copy_(all_log_probs.gather(-1, rollout.actions).squeeze(-1))
        log_ratios = rollout.log_probs.numpy() - columns["log_prob"]
        rollout.weights[:] = np.exp(np.minimum(log_ratios, 0.0))
        after = values[steps + 1]
        rollout.values[:-1], rollout.values[-1] = values[steps], after[-1]
        rollout.bootstrap[:] = np.where(outcomes == Outcome.TRUNCATED, after, 0.0)

    def state(self) -> Tensors:
        """Return copies of everything that :meth:`load` needs."""
        sizes = [(len(stream.rows), stream.n_context) for stream in self._streams]
        rows = join_rows([stream.rows for stream in self._streams])
        return {"sizes": np.array(sizes), "rows": as_bytes(rows).copy(), "next": np.array([self._next])}

    def load(self, state: Tensors) -> None:
        """Continue from what :meth:`state` returned, with the same number of streams."""
        rows = np.frombuffer(state["rows"].tobytes(), row_type(self._shape))
        if len(state["sizes"]) != len(self._streams) or state["sizes"][:, 0].sum() != len(rows):
            raise ValueError(f"{len(rows)} rows do not have the sizes {state['sizes'].tolist()}")
        start = 0
        for stream, (n, n_context) in enumerate(state["sizes"].tolist()):
            self._set(stream, _Segment(rows[start : start + n], n_context))
            start += n
        self._next = int(state["next"][0])

    def _set(self, stream: int, waiting: _Segment) -> None:
        """Replace the rows of a stream, and count its complete segments; the row after their last step is there."""
        self._streams[stream] = waiting
        is_step = waiting.rows["outcome"][waiting.n_context : -1] != Outcome.FINAL
        self._n_segments[stream] = np.count_nonzero(is_step) // self._n_steps

    def _cut(self, stream: int) -> _Segment:
        """Remove the oldest segment of a stream and return it."""
        rows, n_context = self._streams[stream]
        steps = np.flatnonzero(rows["outcome"][n_context:] != Outcome.FINAL) + n_context
        end = int(steps[self._n_steps - 1]) + 1
        n_kept = min(end, self._shape.frame_stack - 1)
        self._set(stream, _Segment(rows[end - n_kept :], n_kept))
        return _Segment(rows[: end + 1], n_context)

    def _find_steps(self, segments: list[_Segment]) -> NDArray[np.intp]:
        """Return the indices of the steps in the joined rows of the segments, (T, N)."""
        columns, start = [], 0
        for rows, n_context in segments:
            first = start + n_context
            steps = np.flatnonzero(rows["outcome"][n_context:] != Outcome.FINAL)[: self._n_steps]
            columns.append(first + steps)
            start += len(rows)
        return np.stack(columns, axis=1)

    def _estimate(
        self,
        policy: Policy,
        rows: NDArray[Any],
        steps: NDArray[np.intp],
        segments: list[_Segment],
        rollout: Rollout,
    ) -> tuple[torch.Tensor, NDArray[np.float64]]:
        """Write the inputs of the steps; return their logits, (T * N, A), and the values of all rows, (M,)."""
        index = torch.from_numpy(steps)
        obs = policy.normalise(np.ascontiguousarray(rows["features"]))
        rollout.obs.copy_(obs[index])
        pixels = None
        if rollout.pixels is not None:
            pixels = torch.from_numpy(
                np.concatenate([_stacked(each.rows, self._shape.frame_stack) for each in segments])
            )
            rollout.pixels.copy_(pixels[index])
        logits, values = policy.estimate(obs, pixels)
        moments = policy.value_moments
        return logits[index.flatten()], values.numpy() * float(moments.std) + float(moments.mean)


def _truncate_broken_episodes(rows: NDArray[Any]) -> None:
    """End episodes of a stream of which further rows are missing, in place.

    The observation after the last step of such an episode is unknown. The step before it is therefore marked as
    truncated, and the last row as the final observation.
    """
    outcomes, is_first = rows["outcome"], rows["is_first"].astype(np.bool_)
    goes_on, truncated = outcomes[:-1] == Outcome.GOES_ON, outcomes[:-1] == Outcome.TRUNCATED
    broken = np.flatnonzero((goes_on & is_first[1:]) | (truncated & (outcomes[1:] != Outcome.FINAL)))
    outcomes[broken] = Outcome.FINAL
    before = broken[~is_first[broken] & (broken > 0)] - 1
    outcomes[before[outcomes[before] == Outcome.GOES_ON]] = Outcome.TRUNCATED


def _stacked(rows: NDArray[Any], n_frames: int) -> NDArray[np.uint8]:
    """Return the stack of the last frames of each row of a segment, uint8 (n, H, W, C * K), oldest frame first."""
    numbers = np.arange(len(rows))
    starts = np.maximum.accumulate(np.where(rows["is_first"], numbers, 0))
    frames = [rows["pixels"][np.maximum(numbers - back, starts)] for back in reversed(range(n_frames))]
    return np.concatenate(frames, axis=-1)
