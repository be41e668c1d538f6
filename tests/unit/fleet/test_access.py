"""Addresses, join files, and the spread of exploration."""

import os

import pytest

from soulslab.errors import ConfigError
from soulslab.fleet.access import Access, new_password, read_access, split_address, write_access
from soulslab.fleet.fleet_folder import FleetFolder
from soulslab.fleet.messages import epsilon_exponent


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("redis://127.0.0.1:7000", ("127.0.0.1", 7000, False)),
        ("redis://localhost", ("localhost", 6379, False)),
        ("redis://[::1]:7000", ("::1", 7000, False)),
        ("rediss://fleet.example:7000", ("fleet.example", 7000, True)),
    ],
)
def test_addresses(address, expected):
    assert split_address(address) == expected


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("redis://10.0.0.5:7000", "TLS is needed"),
        ("redis://fleet.example", "TLS is needed"),
        ("redis://0.0.0.0:7000", "TLS is needed"),
        ("redis://user:secret@127.0.0.1", "holds a credential"),
        ("http://127.0.0.1", "is not redis://"),
        ("redis://127.0.0.1:99999", "is not an address"),
        ("redis://127.0.0.1/3", "is not redis://"),
        ("127.0.0.1:7000", "is not redis://"),
    ],
)
def test_unsafe_and_malformed_addresses_are_refused(address, problem):
    with pytest.raises(ConfigError, match=problem):
        split_address(address)


@pytest.mark.parametrize("listen", ["0.0.0.0:6390", "[::]:6390", "*:6390"])
def test_an_address_that_no_other_machine_can_use_is_refused(tmp_path, listen):
    with pytest.raises(ConfigError, match=r"means all addresses of this machine.*as 192\.168\.1\.5:6390"):
        FleetFolder(tmp_path).make(listen=listen)
    assert not list(tmp_path.iterdir())


def access(**changes):
    fields = {"address": "redis://127.0.0.1:7000", "run": "run-1", "user": "play-1", "password": new_password()}
    return Access(**{**fields, **changes})


def test_a_join_file_is_private_and_can_be_read_again(tmp_path):
    path = tmp_path / "join.toml"
    given = access()
    write_access(path, given)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_access(path) == given


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_join_file_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "join.toml"
    write_access(path, access())
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_access(path)


def test_a_password_is_not_shown():
    given = access()
    assert given.password not in repr(given)
    assert given.password not in f"{given}"


def test_a_credential_can_be_revoked_without_the_others(tmp_path):
    folder = FleetFolder(tmp_path)
    folder.make(None)
    first, second = folder.invite(tmp_path / "a.toml"), folder.invite(tmp_path / "b.toml")
    folder.revoke(first.name)
    assert folder.users() == (second,)
    assert read_access(tmp_path / "b.toml").user == second.name
    with pytest.raises(ConfigError, match=second.name):
        folder.revoke(first.name)


def test_a_run_without_a_fleet_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="has no fleet"):
        FleetFolder(tmp_path).admin()


def test_exploration_is_spread_evenly_for_any_number_of_games():
    exponents = [epsilon_exponent(i, 7.0) for i in range(8)]
    assert exponents[0] == 1.0
    assert sorted(exponents) == [1.0 + 7.0 * i / 8 for i in range(8)]
    assert [epsilon_exponent(i, 0.0) for i in range(4)] == [1.0] * 4
