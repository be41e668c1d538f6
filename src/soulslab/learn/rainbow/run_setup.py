"""Setup of a Rainbow run: its environments, the policy to train, and recorded episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from soulslab.config import Secret
from soulslab.errors import ConfigError
from soulslab.learn.demonstrations.reading import read_demonstrations
from soulslab.learn.environment import feature_names, make_vector, sizes
from soulslab.learn.network_policy import header_fields
from soulslab.learn.rainbow.feature_encoding import resolve_bins
from soulslab.learn.rainbow.q_policy import QHeader, QPolicy
from soulslab.learn.rainbow.rainbow_settings import RainbowSettings
from soulslab.learn.rainbow.remote_actor import RemoteActor
from soulslab.learn.rainbow.transition_actor import ActorRunner, LocalActor
from soulslab.learn.run_folder import RunFolder
from soulslab.learn.torch_device import select_device


class RunSetup(NamedTuple):
    """Parts of a run: the policy to train, the actor with its environments, and recorded episodes, if any."""

    policy: QPolicy
    playing: ActorRunner
    shown: NDArray[Any] | None


def set_up_run(
    folder: RunFolder[RainbowSettings], initialise: Callable[[QPolicy, VectorEnv[Any, Any, Any]], None]
) -> RunSetup:
    """Make the environments, or prepare the process of a remote actor.

    Args:
        folder: Folder of the run.
        initialise: Called with the new policy and the environments; may replace the random weights.

    Raises:
        CheckpointError: ``run.start_from`` does not name a matching policy.
        ConfigError: The bins refer to an unknown feature, or a remote actor would need a secret.
        DemonstrationError: The recorded episodes belong to another environment, or are damaged.
        EnvironmentUsageError: The environment does not support training.
    """
    settings = folder.settings
    env = make_vector(settings.env.id, settings.env.n_envs, folder.options)
    try:
        found = sizes(env)
        bins = resolve_bins(settings.network.bins, found.n_features, feature_names(env), settings.env.id)
        header = QHeader(
            **header_fields(settings, found),
            extras=settings.inputs,
            network=msgspec.structs.replace(settings.network, bins=bins),
        )
        generator = torch.Generator().manual_seed(settings.run.seed)
        policy = QPolicy(header, generator, select_device(settings.run.device))
        initialise(policy, env)
        shown = _read_shown(folder, env) if settings.demonstrations.path else None
        if settings.run.actor == "apart":
            env.close()
            _refuse_secrets(folder.options)
            return RunSetup(policy, RemoteActor(folder.path, header), shown)
        return RunSetup(policy, LocalActor(env, QPolicy(header), settings.run.seed), shown)
    except BaseException:
        env.close()
        raise


def _refuse_secrets(options: Mapping[str, Any]) -> None:
    """Check that the options can be passed to another process."""
    for name, value in options.items():
        if isinstance(value, Secret):
            raise ConfigError(
                "is a secret, which cannot be passed to the process of a remote actor; give the path of a file that "
                "holds it (token_file), or set the environment variable SOULSLAB_TOKEN",
                path=f"env.options.{name}",
            )


def _read_shown(folder: RunFolder[RainbowSettings], env: VectorEnv[Any, Any, Any]) -> NDArray[Any]:
    """Return the recorded episodes as rows of the replay buffer."""
    settings = folder.settings
    # Only a reset shows whether there are masks. A resumed run was checked when it started, and must not start a fight
    # in a game that a remote actor still plays.
    is_masked = folder.checkpoint is None and "action_mask" in env.reset(seed=settings.run.seed)[1]
    path = settings.demonstrations.path
    return read_demonstrations(path, env, settings.env, extras=settings.inputs, is_masked=is_masked)
