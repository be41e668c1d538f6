"""Real scrapes over HTTP, parsed as Prometheus does."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from prometheus_client import REGISTRY

from soulslab.errors import ConfigError
from soulslab.learn.sinks import PrometheusSink, RemoteAccess, run_sinks
from soulslab.learn.sinks.metric_names import MESSAGES, NAME_TAGS
from soulslab.learn.telemetry import FightStats, TrainFinished, TrainStarted
from support.messages import EVALUATED, LEARNING, PROGRESS, example, unknown
from support.scrapes import families, fetch, open_families, samples, value
from support.waiting import PATIENCE_S

EVERY = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


@pytest.fixture
def sink():
    sink = PrometheusSink(0)
    yield sink
    sink.close()


def numbers_of(part):
    """Return all numbers in a message, through tables and lists."""
    if isinstance(part, dict):
        return [number for value in part.values() for number in numbers_of(value)]
    if isinstance(part, tuple | list):
        return [number for value in part for number in numbers_of(value)]
    return [part] if isinstance(part, int | float) and not isinstance(part, bool) else []


@EVERY
def test_every_number_is_exported(sink, kind):
    """By reflection: each number of an example differs from all others, so its value identifies it."""
    message = example(kind)
    sink.write(message)
    found = samples(sink.url)
    shown = {*found.values(), *(text for _, labels in found for _, text in labels)}
    fields = msgspec.structs.asdict(message)
    fields.pop("actions_by_situation", None)  # a table, which only the dashboard shows
    for field, part in fields.items():
        scale = 1000.0 if field.endswith("_ms") else 1.0
        for number in numbers_of(part):
            assert {number / scale, str(number)} & shown, f"{field} = {number}"


@EVERY
def test_what_is_unknown_is_absent_also_if_it_was_known(sink, kind):
    message = example(kind)
    sink.write(unknown(message))
    before = set(samples(sink.url))
    sink.write(message)
    during = set(samples(sink.url))
    sink.write(unknown(message))
    assert set(samples(sink.url)) == before <= during
    n_optional = sum(part is None for part in msgspec.structs.asdict(unknown(message)).values())
    assert len(during) == len(before) + n_optional


@EVERY
def test_both_formats_have_the_same_metrics(sink, kind):
    """OpenMetrics' parser is strict about names, types and escapes."""
    sink.write(example(kind))
    older, newer = families(sink.url), open_families(sink.url)
    # The older format has no type for what says something in words.
    assert {name.removesuffix("_info") for name in older} == set(newer)
    assert all(family.documentation for family in newer.values())


def test_before_the_first_message_there_is_nothing(sink):
    assert samples(sink.url) == {}


def test_types_and_units(sink):
    for message in (PROGRESS, LEARNING, EVALUATED):
        sink.write(message)
    found = families(sink.url)
    assert found["soulslab_train_decisions"].type == "counter"
    assert found["soulslab_train_fights"].type == "counter"
    assert found["soulslab_updates"].type == "counter"
    assert found["soulslab_train_win_ratio"].type == "gauge"
    assert found["soulslab_train_win_ratio"].documentation.startswith("Share of wins among the last")
    assert value(sink.url, "soulslab_train_fights_total") == 2000
    assert value(sink.url, "soulslab_evaluation_win_low_ratio") == 0.546
    assert value(sink.url, "soulslab_train_decisions_total") == LEARNING.env_steps
    assert value(sink.url, "soulslab_evaluation_decisions") == EVALUATED.env_steps


def test_tables_have_labels_and_lose_what_is_gone(sink):
    message = FightStats(
        env_steps=1, n_fights=2, reward_terms={"win": 1.0}, damage_by_attack={"sweep": 3.0}, action_shares=(0.25, 0.75)
    )
    sink.write(message)
    assert value(sink.url, "soulslab_fight_reward", term="win") == 1.0
    assert value(sink.url, "soulslab_fight_damage_hit_points", attack="sweep") == 3.0
    assert value(sink.url, "soulslab_fight_action_ratio", action="1") == 0.75
    sink.write(msgspec.structs.replace(message, damage_by_attack={"thrust": 4.0}))
    assert value(sink.url, "soulslab_fight_damage_hit_points", attack="sweep") is None
    assert value(sink.url, "soulslab_fight_damage_hit_points", attack="thrust") == 4.0


def test_a_run_and_its_end_are_named(sink):
    sink.write(TrainStarted(env_id="toys/Corridor-v0", total_steps=9, env_steps=3, seed=7, is_resumed=True))
    sink.write(TrainFinished(env_steps=9, seconds=2.0, reason="win rate reached"))
    labels = {"env_id": "toys/Corridor-v0", "seed": "7", "is_resumed": "true"}
    assert value(sink.url, "soulslab_run_info", **labels) == 1.0
    assert value(sink.url, "soulslab_run_end_info", reason="win rate reached") == 1.0
    assert {NAME_TAGS.get(kind).metric for kind in MESSAGES if NAME_TAGS.get(kind)} == {
        "soulslab_run_info",
        "soulslab_run_end_info",
    }


def test_the_time_of_the_last_message_is_told(sink):
    sink.write(PROGRESS)
    heard = value(sink.url, "soulslab_last_message_timestamp_seconds")
    sink.write(PROGRESS)
    assert value(sink.url, "soulslab_last_message_timestamp_seconds") >= heard


def test_two_sinks_share_nothing(sink):
    other = PrometheusSink(0)
    other.write(PROGRESS)
    assert samples(sink.url) == {}
    other.close()
    assert not [family for family in REGISTRY.collect() if family.name.startswith("soulslab")]


def test_each_scrape_during_a_run_sees_one_moment(sink):
    """Eight scrapers beside a run that writes as fast as it can: no scrape mixes two messages, none fails."""
    is_over, failures, n_scrapes = threading.Event(), [], []

    def scrape():
        try:
            while not is_over.is_set():
                found = samples(sink.url)
                if found:
                    decisions = found["soulslab_train_decisions_total", frozenset()]
                    assert found["soulslab_train_fights_total", frozenset()] == decisions
                    assert found["soulslab_train_seconds_total", frozenset()] == decisions
                n_scrapes.append(1)
        except Exception as error:  # noqa: BLE001  (told by the test's own thread)
            failures.append(error)

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    n = 0
    while len(n_scrapes) < 50 and not failures:
        n += 1
        sink.write(msgspec.structs.replace(PROGRESS, env_steps=n, n_fights=n, seconds=float(n)))
    is_over.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert n > 50


def test_clients_that_misbehave_are_no_matter_of_the_run(sink, capfd):
    """Silent ones, rude ones, and ones that hang up: others are served, nothing is printed, closing does not wait."""
    sink.write(PROGRESS)
    silent = socket.create_connection(("127.0.0.1", sink.port))
    rude = socket.create_connection(("127.0.0.1", sink.port))
    rude.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
    gone = socket.create_connection(("127.0.0.1", sink.port))
    gone.sendall(b"GET /metrics HTTP/1.1\r\nHos")
    # The peer sees a reset instead of an end.
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    gone.close()
    assert value(sink.url, "soulslab_train_fights_total") == 2000
    with pytest.raises(OSError, match="405"):
        fetch(sink.url, data=b"posted")
    sink.close()
    silent.close()
    rude.close()
    assert capfd.readouterr() == ("", "")


def test_closing_frees_the_port_and_may_be_done_twice(sink):
    sink.close()
    sink.close()
    with pytest.raises(OSError, match="refused"):
        fetch(sink.url)
    again = PrometheusSink(sink.port)
    assert again.port == sink.port
    again.close()


def test_messages_after_closing_are_taken(sink):
    """A second reader of the same sinks may close later than it writes."""
    sink.close()
    sink.write(PROGRESS)
    with pytest.raises(OSError, match="refused"):  # and no server exists
        socket.create_connection(("127.0.0.1", sink.port))


def test_a_port_in_use_is_reported_with_what_to_do(sink):
    with pytest.raises(
        ConfigError, match=rf"port: cannot listen at 127.0.0.1:{sink.port}: .*in use; choose another port, or 0"
    ):
        PrometheusSink(sink.port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(ConfigError, match=f"{port} is not a port"):
        PrometheusSink(port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_this_machine_may_be_named_in_other_ways(host):
    sink = PrometheusSink(0, host)
    sink.write(PROGRESS)
    assert value(sink.url, "soulslab_train_fights_total") == 2000
    sink.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.168.0.1", "trainer.lan", "127.0.0.1.evil.net"])  # noqa: S104
def test_other_machines_are_let_in_with_a_token_and_tls_only(host):
    with pytest.raises(ConfigError, match=r"host: .* can be reached from other machines, so a token and TLS"):
        PrometheusSink(0, host)


def test_weak_tokens_and_missing_certificates_are_told(tmp_path):
    files = {"certificate": tmp_path / "certificate.pem", "key": tmp_path / "key.pem"}
    for token in ("short", "ümlaut" * 5, "line\nbreak" * 5):
        with pytest.raises(ConfigError, match="token: needs at least 16 printable ASCII characters"):
            PrometheusSink(0, access=RemoteAccess(token=token, **files))
    for name, file in files.items():
        with pytest.raises(ConfigError, match=rf"^{name}: .*{name}.pem cannot be read: No such file"):
            PrometheusSink(0, access=RemoteAccess(token="t" * 16, **files))
        file.write_text("no PEM")
    with pytest.raises(ConfigError, match=r"cannot be used: .*give two PEM files"):
        PrometheusSink(0, access=RemoteAccess(token="t" * 16, **files))


def test_a_run_has_it_on_request(tmp_path):
    assert not [sink for sink in run_sinks(tmp_path) if isinstance(sink, PrometheusSink)]
    sinks = run_sinks(tmp_path, prometheus_port=0)
    *_, sink = sinks
    sink.write(PROGRESS)
    assert value(sink.url, "soulslab_train_fights_total") == 2000
    for one in sinks:
        one.close()
    assert not list(tmp_path.iterdir())


def test_a_process_that_ends_without_closing_does_not_hang():
    program = (
        "from soulslab.learn.sinks import PrometheusSink\n"
        "sink = PrometheusSink(0)\n"
        "print(sink.port, flush=True)\n"
        "input()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4] / "src")},
    )
    port = int(child.stdout.readline())
    assert fetch(f"http://127.0.0.1:{port}/metrics") == ""
    child.communicate("\n", timeout=PATIENCE_S)
    assert child.returncode == 0
    PrometheusSink(port).close()
