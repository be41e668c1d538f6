from graphlib import TopologicalSorter

import grimp


def test_modules_of_src_import_each_other_without_cycles():
    graph = grimp.build_graph("soulslab")
    modules = set(graph.modules)
    imports = {module: graph.find_modules_directly_imported_by(module) & modules for module in modules}

    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules of a cycle
