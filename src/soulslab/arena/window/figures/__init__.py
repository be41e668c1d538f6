"""Knight and bosses as articulated figures, posed by what the records say.

From the bottom up: `mesh` (solids made of triangles), `pose` (what a body can do, as an array), `rig` (from a pose to
the places of a body's parts), `strikes` (where a blow puts a weapon), then the poses of the knight and the bosses, and
the nodes that show them. All up to the poses is plain arithmetic; only nodes know panda3d.

A figure's own axes are panda3d's: x to the right, y ahead, z up, the feet at z = 0. Angles are rad from straight ahead,
+ to the left.
"""
