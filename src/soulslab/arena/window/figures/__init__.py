"""Knight and bosses as articulated figures, posed by the duel's records.

In the order of their dependencies: `mesh` (solids made of triangles), `pose` (the controls of a body as an array),
`rig` (from a pose to the positions of the body's parts), `strikes` (weapon positions in an attack), then the poses of
the knight and the bosses, and the nodes that show them. Only the meshes and the nodes use panda3d.

The axes of a figure are panda3d's: x to the right, y ahead, z up, with the feet at z = 0. Angles are in rad from
straight ahead, + to the left.
"""
