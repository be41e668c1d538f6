"""Transports between an actor and the learner, and the process of a remote actor.

:mod:`.transport` defines the interface, and the transport inside one process. :mod:`.shared_memory_transport` connects
two processes: :mod:`.shared_memory` lists the files of shared memory, :mod:`.memory_block` is one file and a queue in
it, :mod:`.weights_board` the newest weights in it, :mod:`.actor_status` counters in it. :mod:`.actor_process` starts
the process of a remote actor and restarts it after a failure.
"""
