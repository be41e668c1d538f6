"""Kinds of addresses, and which of them are local."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import ConfigError
from soulslab.siphon.rpc.address import parse_address


@pytest.mark.parametrize(
    ("text", "is_local", "target"),
    [
        ("127.0.0.1:0", True, "127.0.0.1:0"),
        ("127.1.2.3:50051", True, "127.1.2.3:50051"),
        ("[::1]:7", True, "[::1]:7"),
        ("localhost:7", True, "dns:localhost:7"),
        ("unix:/run/a b.sock", True, "unix:/run/a b.sock"),
        ("0.0.0.0:7", False, "0.0.0.0:7"),
        ("[::]:7", False, "[::]:7"),
        ("192.168.0.4:65535", False, "192.168.0.4:65535"),
        ("localhost.example:7", False, "dns:localhost.example:7"),
        ("desk:7", False, "dns:desk:7"),
    ],
)
def test_addresses(text, is_local, target):
    address = parse_address(text)
    assert str(address) == text
    assert address.is_local is is_local
    assert address.target == target


def test_the_path_of_a_socket_has_a_limit():
    assert parse_address(f"unix:/{106 * 'x'}").path == f"/{106 * 'x'}"
    with pytest.raises(ConfigError, match="has 109 bytes, and the system allows 107; use a shorter path"):
        parse_address(f"unix:/{54 * 'ä'}")


@given(st.text(max_size=20) | st.from_regex(r"[\w\[\]:./]{1,15}:\d{1,6}"))
def test_any_text_is_an_address_or_an_error(text):
    try:
        address = parse_address(text)
    except ConfigError as error:
        assert repr(text) in str(error)
    else:
        assert parse_address(str(address)) == address
