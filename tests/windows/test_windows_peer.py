"""The user of a client at a loopback address."""

import os
import socket
from contextlib import closing

import pytest

from soulslab.siphon.rpc.windows_peer import own_user, owner_of_connection, user_of


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_process_with_the_other_end_of_a_connection(family, host):
    with closing(socket.create_server((host, 0), family=family)) as server:
        port = server.getsockname()[1]
        with closing(socket.create_connection((host, port))) as client:
            served, _ = server.accept()
            with closing(served):
                peer_port = client.getsockname()[1]
                # Wine 8 does not say which process has a connection, so the answer of Windows is not proven here.
                assert owner_of_connection(host, peer_port, port) in (os.getpid(), 0)
                assert owner_of_connection(host, peer_port, port + 1) is None
        assert owner_of_connection(host, peer_port, port) is None


def test_the_user_of_a_process():
    assert own_user().startswith("S-1-")
    assert user_of(os.getpid()) == own_user()
    assert user_of(3) is None
