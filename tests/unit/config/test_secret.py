import copy
import pickle

import msgspec
import pytest

from soulslab.config import Secret, dump_settings, reveal, without_secrets
from soulslab.errors import ConfigError
from soulslab.learn.environment import describe_options
from soulslab.learn.settings import EnvSettings
from soulslab.siphon.rpc.server import ServerOptions

TOKEN = "a-token-of-some-length"  # noqa: S105  (made up)


def test_a_secret_is_not_printed():
    secret = Secret(TOKEN)
    assert {str(secret), repr(secret), f"{secret}", f"{secret!r}", f"{secret:>3}", "%s" % secret} == {"***"}  # noqa: UP031
    assert TOKEN not in repr([secret, {"token": secret}, ServerOptions(token=TOKEN)])
    assert secret.reveal() == reveal(secret) == reveal(TOKEN) == TOKEN


def test_secrets_compare_by_their_text():
    assert Secret(TOKEN) == Secret(TOKEN)
    assert hash(Secret(TOKEN)) == hash(Secret(TOKEN))
    assert Secret(TOKEN) != Secret("another")
    assert Secret(TOKEN) != TOKEN
    assert Secret(TOKEN)
    assert not Secret("")
    assert copy.deepcopy({"token": Secret(TOKEN)}) == {"token": Secret(TOKEN)}


def test_a_secret_is_not_serialised():
    secret = Secret(TOKEN)
    with pytest.raises(ConfigError, match="token_file"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    with pytest.raises(ConfigError, match=r"env.options.token|options.token"):
        dump_settings(EnvSettings(options={"token": secret}))


def test_options_for_files_contain_no_secret():
    options = {"boss": "judge", "token": Secret(TOKEN), "token_file": "token", "password": Secret("x")}
    assert without_secrets(options) == {"boss": "judge"}
    assert without_secrets({"token": TOKEN}) == {}
    assert describe_options(options) == {"boss": "judge", "token_file": "token"}


def test_a_token_is_not_a_setting():
    with pytest.raises(ConfigError, match=r"env.options.token: is not a setting.*--token-file"):
        msgspec.convert({"options": {"token": TOKEN}}, EnvSettings)
