"""A profile that uses all parts of the format, as text."""

FULL = """\
format = 1
name = "Game"

[process]
executable = "game.exe"
window_title = "GAME"
versions = ["1.2.0.0"]
anti_cheat = ["guard.exe"]
command = ["game", "-skill", "{skill}", "-config", "{directory}/game.cfg"]
environment = { SDL_VIDEODRIVER = "x11", HOME = "{directory}" }
options = { skill = "4" }

[bases.world]
pattern = "48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F"
displacement_at = 3
instruction_end = 7
is_pointer = true
source = "found by hand"

[bases.counter]
pattern = "83 05 ?? ?? ?? ?? 01 4? ?8"
displacement_at = 2
instruction_end = 7
pick = 1
source = "found by hand"

[bases.speed]
module = "libphysics.so"
offset = 0x1F0
adjust = -8
source = "found by hand"

[code_offsets.last_frame]
pattern = "8B 83 ?? ?? 00 00 89 83 ?? ?? 00 00"
at = 2
range = [0x200, 0x300]
source = "found by hand"

[code_offsets.pace]
pattern = "8B 83 ?? ?? 00 00 89 83 ?? ?? 00 00"
at = 2
adjust = 0x68
range = [0x268, 0x368]
versions = ["1.2.0.0"]
source = "found by hand"

[entities.boss]
base = "world"
begin = [0x1F1B8]
end = [0x1F1C0]
id_offsets = [0x60]
id_type = "i32"
id = -850
source = "found by hand"

[attributes."player.hp"]
base = "world"
offsets = [0x10EF8, 0, 0x138]
type = "i32"
unit = "hp"
range = [0, 2000]
source = "found by hand"

[attributes.boss-hp]
entity = "boss"
offsets = [0x138]
type = "u64"
range = [0, 18446744073709551615.0]
is_writable = false
source = "found by hand"

[attributes.pose]
base = "world"
offsets = [-8]
type = "i32"
length = 3
scale = 0.0000152587890625
unit = "m"
range = [-32768, 32768]
source = "found by hand"

[attributes.angle]
base = "world"
offsets = [0x20]
type = "u32"
scale = 1.4629180792671596e-09
unit = "rad"
range = [0, 6.283185307]
source = "found by hand"

[attributes.depth]
base = "world"
offsets = [0x28]
type = "i16"
scale = -0.5
range = [-16383.5, 16384]
source = "found by hand"

[attributes.is_paused]
base = "world"
offsets = [0]
type = "flag"
bit = 3
source = "found by hand"

[attributes.name]
base = "world"
offsets = [0x40]
type = "utf16"
length = 32
source = "found by hand"

[attributes.inventory]
base = "world"
offsets = [0x80]
type = "bytes"
length = 64
source = "found by hand"

[attributes.ticks]
base = "counter"
offsets = [0]
type = "u32"
range = [0, 4294967295]
source = "found by hand"

[attributes.speed]
base = "speed"
offsets = [0]
type = "f32"
range = [0, 1000]
source = "found by hand"

[attributes."game.pace"]
base = "world"
offsets = ["pace"]
type = "f32"
range = [0, 1000]
is_holding = true
source = "found by hand"

[[attributes."game.pace".alternatives]]
offsets = [8, 0x2CC]
versions = ["1.2.0.0"]
source = "a tool"

[[attributes."game.pace".alternatives]]
entity = "boss"
type = "i32"
scale = 0.5
source = "another tool"

[keys]
roll = "SPACE"
attack = "MOUSE_LEFT"

[clock]
grade = "lockstep"
tick_hz = 60
tick_attribute = "ticks"
speed_attribute = "speed"
game_time_attribute = "ticks"
game_time_s = 0.01

[input]
backend = "xsendevent"

[env]
step_ticks = 4
reward.hp = { attribute = "player.hp", weight = -0.01 }
"""

PUBLIC = """\
[process_info]
name = "game.exe"
window_name = "GAME"

[attributes.Hp]
pattern = "48 8B 05 ?? ?? ?? ?? 48 85 C0"
offsets = [0x10EF8, 0x0, 0x138]
type = "int"

[attributes.Angle]
pattern = "48 8B 05 ?? ?? ?? ?? 48 85 C0"
offsets = [0x6CC]
type = "float"

[attributes.NoGravity]
pattern = "48 8b 0d ?? ?? ?? ?? 80 bb"
offsets = [0x1D3]
type = "bool"

[attributes.IsDead]
pattern = "48 8B 0D ?? ?? ?? ?? 80 BB"
offsets = [0x1D4]
type = "bool"
mask = 0x40

[attributes.Inventory]
pattern = "48 8B 0D ?? ?? ?? ?? 80 BB"
type = "array"
length = 16

[attributes.NpcHp]
method = "dll"
pattern = "48 8B 48 08 49 89 8D"
offsets = [0x190, 0x0, 0x138]
type = "int"
"""
