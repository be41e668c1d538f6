"""Code for patterns: random patterns have exactly the required matches."""

import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from soulslab.arena.window.memory.code_plan import CodePlan, assemble
from soulslab.errors import LayoutError
from soulslab.siphon.profile import Base, Process, Profile
from soulslab.siphon.profile.pattern import Pattern
from support.long_form import examples

GAP = 16


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(("48", "8B", "4?", "?B", "??", "48")), min_size=1, max_size=5), st.integers(0, 3)
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=examples(150))
def test_patterns_of_few_bytes_match_as_often_as_they_are_picked(drawn):
    patterns = [" ".join(["48", *parts]) for parts, _ in drawn]
    bases = {
        f"base{i}": Base(pattern=pattern, pick=pick, source="test")
        for i, (pattern, (_, pick)) in enumerate(zip(patterns, drawn, strict=True))
    }
    plan = CodePlan(Profile(name="x", process=Process(executable="x"), bases=bases))
    starts, at = {}, 0
    for block in plan.blocks:
        starts[block] = at + GAP - block.low
        at = starts[block] + block.high + GAP
    try:
        (run,) = assemble(plan, starts, [(0, at)])
    except LayoutError:
        assume(False)
    for name, base in bases.items():
        pattern = Pattern.parse(base.pattern)
        found = [match.start() for match in re.finditer(b"(?=%b)" % pattern.expression, bytes(run.code), re.DOTALL)]
        block, position = plan.matches[f"bases.{name}"]
        assert found[base.pick] == starts[block] + position
