"""Detection of disconnected clients."""

import socket

import pytest

from soulslab.siphon.rpc.public import public_clients as peers
from soulslab.siphon.rpc.public.public_clients import PeerWatch
from support.waiting import wait_for


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_connection_is_distinguished_from_one_that_has_ended(family, host):
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        listener.listen()
        client = socket.create_connection(listener.getsockname()[:2])
        port = client.getsockname()[1]
        peer = f"ipv4:{host}:{port}" if family is socket.AF_INET else f"ipv6:%5B{host}%5D:{port}"
        accepted, _ = listener.accept()
        gone = []
        watch = PeerWatch(lambda: [] if gone else [peer], lambda who, for_s: gone.append((who, for_s)))
        with accepted:
            watch.wake()
            thread = watch._thread
            assert peers.address_of_peer(peer) in peers._connected()
            assert not gone
            client.close()
            wait_for(lambda: gone)
        assert gone[0] == (peer, 0.0)
        thread.join()  # no client is watched any more
        watch.close()


def test_clients_of_a_unix_socket_count_as_disconnected_without_calls(monkeypatch):
    monkeypatch.setattr(peers, "POLL_S", 0.01)
    gone = []
    watch = PeerWatch(lambda: ["unix:"], lambda who, _: gone.append(who))
    watch.called("unix:")
    watch.wake()
    assert not gone
    monkeypatch.setattr(peers, "UNIX_STILL_S", 0.0)
    wait_for(lambda: gone)
    watch.close()
    watch.close()
    watch.wake()  # after its end it rests
    assert watch._thread is None or not watch._thread.is_alive()
