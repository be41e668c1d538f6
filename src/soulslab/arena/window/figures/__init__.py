"""Knight and bosses as articulated figures, posed by the duel's records.

The axes of a figure are panda3d's: x to the right, y ahead, z up, with the feet at z = 0. Angles are in rad from
straight ahead, + to the left.
"""
