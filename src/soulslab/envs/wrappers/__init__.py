"""Gymnasium wrappers for boss duels. They can be combined in any order."""

from soulslab.envs.wrappers.boundary import (
    Boundary,
    WalkOptions,
    boundary_of_recording,
    boundary_of_walk,
    draw_boundary,
    load_boundary,
    save_boundary,
)
from soulslab.envs.wrappers.duel_source import ShowsDuel, WritesQuantities
from soulslab.envs.wrappers.game_changes import HealthRefund, SafeGround
from soulslab.envs.wrappers.info_adapters import FightReport, SoulsGymView, UniformInfo
from soulslab.envs.wrappers.live_plot import LivePlot
from soulslab.envs.wrappers.observation_fields import AnimationTimers, BoundaryObservation, feature_names_of
from soulslab.envs.wrappers.scaling import ScaleObservation
from soulslab.envs.wrappers.shaping import DodgeRewards, DodgeShaping, EdgeShaping, wind_ups_of

__all__ = [
    "AnimationTimers",
    "Boundary",
    "BoundaryObservation",
    "DodgeRewards",
    "DodgeShaping",
    "EdgeShaping",
    "FightReport",
    "HealthRefund",
    "LivePlot",
    "SafeGround",
    "ScaleObservation",
    "ShowsDuel",
    "SoulsGymView",
    "UniformInfo",
    "WalkOptions",
    "WritesQuantities",
    "boundary_of_recording",
    "boundary_of_walk",
    "draw_boundary",
    "feature_names_of",
    "load_boundary",
    "save_boundary",
    "wind_ups_of",
]
