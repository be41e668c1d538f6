"""A telemetry sink for Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, MissingDependencyError
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.sinks.metric_names import tagged_values
from soulslab.learn.telemetry import EvaluationProgress, Message

if TYPE_CHECKING:
    import wandb

_STEP: Final = "env_steps"


class WandbSink:
    """Logs the numbers of a run to Weights & Biases by game decisions, with the names that TensorBoard has.

    The run at Weights & Biases has the name of the folder and its settings; it begins with the first message. The
    account is that of ``wandb login`` or of the environment variable ``WANDB_API_KEY``. With ``WANDB_MODE=offline``
    the numbers are written to the folder, without a network, for ``wandb sync``.
    """

    def __init__(self, folder: Path, project: str) -> None:
        """Set the folder of the run and the project; raises MissingDependencyError without wandb."""
        try:
            import wandb  # noqa: F401, PLC0415  (takes half a second, and few runs need it)
        except ImportError as error:
            raise MissingDependencyError("wandb", "wandb") from error
        self._folder = folder
        self._project = project
        self._run: wandb.Run | None = None

    def write(self, message: Message) -> None:
        """Log the numbers of a message; raises ConfigError if there is no account, or its server does not answer."""
        if self._run is None:
            self._run = self._begin()
        if isinstance(message, EvaluationProgress):
            return
        found = tagged_values(message)
        if found:
            # A resumed run repeats steps; W&B's own step may only grow, so decisions are an axis of their own.
            self._run.log({**found, _STEP: message.env_steps})

    def close(self) -> None:
        """Send what is left, and end the run."""
        run, self._run = self._run, None
        if run is not None:
            run.finish()

    def _begin(self) -> wandb.Run:
        import wandb  # noqa: PLC0415

        options: dict[str, Any] = {"silent": True, "console": "off", "disable_git": True, "disable_code": True}
        settings = wandb.Settings(**options, x_disable_stats=True)
        path = self._folder / CONFIG_NAME
        try:
            run = wandb.init(
                project=self._project,
                name=self._folder.name,
                dir=self._folder,
                config=read_toml(path) if path.exists() else {},
                settings=settings,
            )
        except wandb.Error as error:
            raise ConfigError(
                f"Weights & Biases cannot be used: {error}; log in with wandb login, or set WANDB_MODE=offline",
                path="sinks.wandb",
            ) from error
        run.define_metric("*", step_metric=_STEP)
        return run
