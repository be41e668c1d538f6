"""Scanner: finds the address of a value with repeated scans, pointer paths to it, and writes the profile entry.

::

    scan = ValueScan(memory, "i32")
    scan.first(Condition("exact", 100))       # the health is 100; thousands of places are
    scan.narrow(Condition("exact", 97))       # lose some health; a few are left
    address = scan.candidates()[0].address
    path = PointerMap(memory, modules_of(memory, image)).paths_to(address)[0]
    found = Found(name="player.hp", path=path, type="i32", range=(0, 200), source="scan of my game 1.0")
    with edit_profile(Path("my_game.toml"), profile) as document:
        add_entry(document, found)
"""
