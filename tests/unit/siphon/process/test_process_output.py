import os
import subprocess
import sys
import threading

import pytest

from soulslab.siphon.process import windows_launch
from soulslab.siphon.process.child_process import Output
from support.waiting import wait_for


@pytest.fixture
def output():
    output = Output()
    yield output
    output.close()


def test_the_tail_is_whole_lines_from_the_end(output):
    for number in range(1000):
        os.write(output.fd, f"line {number}\n".encode())
    lines = output.tail(100).splitlines()
    assert lines[-1] == "line 999"
    assert all(line.startswith("line ") for line in lines)
    assert sum(len(line) + 1 for line in lines) <= 100


def test_invalid_text_is_shown(output):
    os.write(output.fd, b"\xff\xfe broken")
    assert output.tail().endswith("broken")


def test_the_kept_output_stays_small_and_the_writer_continues(output):
    script = "import sys; sys.stdout.write('x' * 5000 + chr(10)); sys.stdout.flush(); input(); print('the end')"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=output.fd) as child:
        while os.fstat(output.fd).st_size < 5001:
            assert child.poll() is None
        output.trim(max_bytes=1000)
        assert os.fstat(output.fd).st_size == 5001
        for _ in range(30):
            os.write(output.fd, b"y" * 4999 + b"\n")
        output.trim(max_bytes=1000)
        assert os.fstat(output.fd).st_size == 1 << 16
        child.communicate(b"\n")
    assert output.tail(100).endswith("the end")


def test_close_ends_its_thread():
    before = set(threading.enumerate())
    output = Output()
    assert len(set(threading.enumerate()) - before) == 1
    output.close()
    output.close()
    assert set(threading.enumerate()) <= before
    assert output.tail() == ""


def test_short_lines_of_a_game_on_windows_are_kept_as_long_ones():
    """The reader runs on every system."""
    end, writing = os.pipe()
    reader = windows_launch._OutputReader(os.fdopen(end, "rb"))
    for number in range(100):
        os.write(writing, f"line {number}\n".encode())
        wait_for(lambda number=number: f"line {number}" in reader.tail())  # each line is a read
    os.close(writing)
    reader.close()
    assert reader.tail().splitlines() == [f"line {number}" for number in range(100)]
