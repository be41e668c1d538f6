"""``soulslab bench``: it parses, wires and exits with a code."""

# ruff: noqa: PLC0415  (`soulslab --help` has to answer at once)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from soulslab.cli.output import EXIT_OK, check_json, make_folder, table_console, write_json
from soulslab.cli.parameters import SEED

if TYPE_CHECKING:
    from soulslab.bench.suite import BenchOptions

BENCH_RESULTS = Path("bench-results")


@Parameter(name="*")  # its fields are flags of the command
@dataclass(frozen=True)
class BenchFlags:
    """How to measure.

    Attributes:
        quick: Rough numbers, and no learning to speak of, in less than a minute.
        config: What train, bosses, transfer and souls train with (demo.toml), or learner, learner-doom and ablation
            (rainbow.toml).
        boss: Name, or path of a boss file, of the only boss to meet (fights, bosses, window).
        steps: Environment steps per measurement (arena, window, live, soak); game decisions of a run (learner: of
            each other learner's; learner-doom; ablation).
        fights: Fights per row (fights, train, bosses, doom, pixels, learner-doom; transfer, souls: those in
            lockstep), or per evaluation (learner, ablation).
        seeds: Seeds of the training runs (train, bosses, learner, ablation), or the only one (doom, learner-doom,
            pixels, soak).
        limit_s: Longest training time of a run in seconds (train, bosses, doom, learner-doom, pixels, transfer,
            souls).
        policy: Policy file, in place of training one (transfer, souls).
        processes: Training runs at a time, each on a core of its own (learner, ablation).
        components: The only components to drop, by their names in the table (ablation).
        tuned_peers: The other libraries play with our settings too, which takes twice as long (learner).
        json: Also write the rows of the tables to this file; all also writes one per benchmark into bench-results/.
    """

    quick: Annotated[bool, Parameter(negative="")] = False
    config: Path | None = None
    boss: str | None = None
    steps: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    fights: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    seeds: Annotated[list[int] | None, Parameter(validator=SEED, consume_multiple=True, negative="")] = None
    limit_s: Annotated[float | None, Parameter(validator=Number(gt=0))] = None
    policy: Path | None = None
    processes: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    components: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    tuned_peers: Annotated[bool, Parameter(negative="")] = False
    json: Path | None = None


def bench(
    what: Literal[
        "arena",
        "fights",
        "train",
        "bosses",
        "siphon",
        "doom",
        "window",
        "live",
        "pixels",
        "transfer",
        "souls",
        "learner",
        "learner-doom",
        "updates",
        "replay",
        "apart",
        "ablation",
        "soak",
        "all",
    ],
    *,
    flags: BenchFlags | None = None,
) -> int:
    """Measure how fast soulslab is on this machine, and how well it learns.

    Without a game or training:
      arena         steps per second of the built-in fight, and compilation
      fights        wins of scripted players
      updates       Rainbow's updates per second
      replay        memory, draws and saving of the replay buffer
      apart         lateness of steps beside a learner that works

    With games:
      siphon        the process bridge, and Doom stepped with it
      window        pictures and steps of the built-in fight in its window
      live          steps and resets of the live environment, and EldenGym's
      soak          several games with faults at random (hours)

    With training:
      train         our PPO, and that of stable-baselines3
      bosses        one config on each boss
      doom          PPO on Doom
      pixels        PPO on pictures of the window
      transfer      the simulator's policy in the window
      souls         the same in the stand-ins for real games
      learner       our Rainbow, and the DQN of other libraries (hours)
      learner-doom  the config of learner on Doom
      ablation      the config of learner without one component each (hours)

    all runs every benchmark. A run of learner that was interrupted resumes.

    Args:
        what: Benchmark to run.
        flags: How to measure.
    """
    from soulslab.bench.result import as_rows, as_table, machine_line
    from soulslab.bench.suite import BENCHMARKS, check_options

    flags = flags or BenchFlags()
    options = _options(flags)
    if what != "all":
        check_options(what, options)
    check_json(flags.json)
    if what == "all":
        make_folder(BENCH_RESULTS)
    console, rows = table_console(), []
    console.print(machine_line(), highlight=False, soft_wrap=True)
    for name in BENCHMARKS if what == "all" else [what]:
        results = BENCHMARKS[name].measure(options)
        for result in results:
            console.print("", as_table(result))
        rows += as_rows(results)
        if what == "all":
            write_json(BENCH_RESULTS / f"{name}.json", as_rows(results))
    if flags.json:
        write_json(flags.json, rows)
    return EXIT_OK


def _options(flags: BenchFlags) -> BenchOptions:
    from soulslab.bench.suite import BenchOptions
    from soulslab.learn.configs import config_path

    return BenchOptions(
        config=None if flags.config is None else config_path(flags.config),
        is_quick=flags.quick,
        boss=flags.boss,
        steps=flags.steps,
        fights=flags.fights,
        seeds=tuple(flags.seeds) if flags.seeds else None,
        limit_s=flags.limit_s,
        policy=flags.policy,
        processes=flags.processes,
        components=tuple(flags.components) if flags.components else None,
        tuned_peers=flags.tuned_peers or None,
    )
