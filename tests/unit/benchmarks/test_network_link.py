"""The network namespace of the benchmark of faults."""

import socket
import subprocess
import sys

import pytest

from benchmarks.network_link import network_link

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))"


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are of Linux")
def test_an_interrupted_link_loses_packets_until_it_is_restored():
    with network_link() as link:
        if link is None:
            pytest.skip("this user may not make a network namespace, or iproute2 is not installed")
        with socket.create_server((link.address, 0)) as server:
            address = [link.address, str(server.getsockname()[1])]

            def connect(timeout_s=30.0):
                command = [*link.command, sys.executable, "-I", "-S", "-c", CONNECT, *address, str(timeout_s)]
                return subprocess.run(command, capture_output=True, text=True, check=False)

            assert connect().returncode == 0
            link.interrupt()
            assert "TimeoutError" in connect(0.3).stderr
            link.restore()
            assert connect().returncode == 0
        name = link.command[-1]
    listed = subprocess.run([link.command[0], "netns"], capture_output=True, text=True, check=True)
    assert name not in listed.stdout
