"""Gymnasium wrappers for boss duels, composable in any order over any of our duel environments."""

from soulslab.envs.wrappers.animation_timers import AnimationTimers
from soulslab.envs.wrappers.boundary import Boundary
from soulslab.envs.wrappers.boundary_file import load_boundary, save_boundary
from soulslab.envs.wrappers.boundary_observation import BoundaryObservation
from soulslab.envs.wrappers.boundary_picture import draw_boundary
from soulslab.envs.wrappers.boundary_walk import WalkOptions, boundary_of_recording, boundary_of_walk
from soulslab.envs.wrappers.duel_source import ShowsDuel, WritesQuantities
from soulslab.envs.wrappers.extended_observation import feature_names_of
from soulslab.envs.wrappers.fight_report import FightReport
from soulslab.envs.wrappers.health_refund import HealthRefund
from soulslab.envs.wrappers.live_plot import LivePlot
from soulslab.envs.wrappers.safe_ground import SafeGround
from soulslab.envs.wrappers.scaling import ScaleObservation
from soulslab.envs.wrappers.shaping import DodgeRewards, DodgeShaping, EdgeShaping, wind_ups_of
from soulslab.envs.wrappers.soulsgym_view import SoulsGymView
from soulslab.envs.wrappers.uniform_info import UniformInfo

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
