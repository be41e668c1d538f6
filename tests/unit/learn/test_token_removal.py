"""Tokens that earlier versions wrote into files."""

import msgspec
import pytest

from soulslab import cli
from soulslab.errors import CheckpointError
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.players import load_player
from soulslab.learn.token_removal import remove_tokens
from soulslab.learn.train import train

TOKEN = "a-token-of-some-length"  # noqa: S105  (made up)


@pytest.fixture
def run_dir(corridor, tmp_path):
    """A run as earlier versions left it: with a token in all of its files."""
    run_dir = tmp_path / "run"
    settings = msgspec.structs.replace(corridor, run=msgspec.structs.replace(corridor.run, total_steps=2000))
    train(settings, run_dir)
    for path in run_dir.rglob("*.safetensors"):
        tensors, header = read_archive(path)
        policy = header.get("policy", header)
        policy["env_options"]["token"] = TOKEN
        if "settings" in header:
            header["settings"]["env"]["options"]["token"] = TOKEN
        write_archive(path, tensors, header)
    config = (run_dir / "config.toml").read_text()
    with_token = config.replace("[env.options]", f'[env.options]\n# of the server\ntoken = "{TOKEN}"\nserver = "a:1"')
    assert with_token != config
    (run_dir / "config.toml").write_text(with_token)
    return run_dir


def files_with_the_token(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes())


def test_the_tokens_of_a_run_are_removed_and_it_goes_on(corridor, run_dir):
    assert {"config.toml", "policy.safetensors"} < set(files_with_the_token(run_dir))
    before = load_player(run_dir)
    assert "token" not in before.header.env_options
    removal = remove_tokens(run_dir)
    assert len(removal.changed) > 2
    assert removal.left == ()
    assert files_with_the_token(run_dir) == []
    assert "# of the server\nserver = " in (run_dir / "config.toml").read_text()
    assert load_player(run_dir).header == before.header
    settings = msgspec.structs.replace(corridor, run=msgspec.structs.replace(corridor.run, total_steps=3000))
    assert train(settings, run_dir, resume=True).env_steps >= 3000
    assert remove_tokens(run_dir) == ((), ())


def test_other_files_with_the_token_are_named(run_dir, monkeypatch, caplog):
    (run_dir / "notes.txt").write_text(f"the token is {TOKEN}")
    assert cli.run(["remove-tokens", str(run_dir)]) == cli.EXIT_FAILED
    assert "notes.txt: still holds a token" in caplog.text
    assert TOKEN not in caplog.text
    (run_dir / "notes.txt").unlink()
    assert cli.run(["remove-tokens", str(run_dir)]) == cli.EXIT_OK


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'[env]\noptions = {{ token = "{TOKEN}" }}\n', id="inline table"),
        pytest.param(f'[env]\noptions.token = "{TOKEN}"\n', id="dotted key"),
        pytest.param(f'[env.options]\n"token" = "{TOKEN}"\n', id="quoted key"),
        pytest.param(f'[env.options]\nserver = localhost\ntoken = "{TOKEN}"\n', id="invalid TOML"),
        pytest.param(f"[env.options]\ntoken = '{TOKEN}\n", id="no closing quote"),
    ],
)
def test_a_token_that_cannot_be_removed_is_reported(tmp_path, caplog, text):
    caplog.set_level("INFO", "soulslab")
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "notes.txt").write_text(f"the token is {TOKEN}")
    assert cli.run(["remove-tokens", str(tmp_path)]) == cli.EXIT_FAILED
    assert caplog.messages == [
        f"{tmp_path / name}: still holds a token; remove this file, or the token in it"
        for name in ("config.toml", "notes.txt")
    ]
    assert (tmp_path / "config.toml").read_text() == text


@pytest.mark.parametrize("start", ["[env.options]\n\t ", "\ufeff[env.options]\n", "\ufeff[env.options]\r\n"])
def test_lines_of_any_editor_are_removed(tmp_path, start):
    file = tmp_path / "config.toml"
    file.write_bytes(f'{start}token = "{TOKEN}"\nboss = "judge"\n'.encode())
    assert remove_tokens(tmp_path) == ((file,), ())
    assert file.read_text() == '[env.options]\nboss = "judge"\n'


def test_malformed_files_without_a_token_are_not_reported(tmp_path):
    (tmp_path / "a.toml").write_text('[env.options]\nserver = localhost\ntoken = ""\ntoken_file = "token.txt"\n')
    (tmp_path / "b.toml").write_bytes(b"\xff\x00token")
    assert remove_tokens(tmp_path) == ((), ())


def test_a_data_set(tmp_path):
    spec = msgspec.json.encode({"id": "soulslab/ArenaLive-v0", "kwargs": {"token": TOKEN, "boss": "judge"}}).decode()
    (tmp_path / "metadata.json").write_bytes(msgspec.json.encode({"env_spec": spec, "total_episodes": 3}))
    assert remove_tokens(tmp_path).changed == (tmp_path / "metadata.json",)
    data = msgspec.json.decode((tmp_path / "metadata.json").read_bytes())
    assert msgspec.json.decode(data["env_spec"])["kwargs"] == {"boss": "judge"}
    assert data["total_episodes"] == 3
    for malformed in (b"[" * 100_000, b'{"env_spec": "' + b"[" * 100_000 + b'"}', b"[]"):
        (tmp_path / "metadata.json").write_bytes(malformed)
        assert remove_tokens(tmp_path) == ((), ())
    (tmp_path / "metadata.json").write_bytes(msgspec.json.encode({"env_spec": spec})[:-1])
    assert remove_tokens(tmp_path) == ((), (tmp_path / "metadata.json",))


def test_no_such_folder(tmp_path):
    with pytest.raises(CheckpointError, match="nothing: cannot be read"):
        remove_tokens(tmp_path / "nothing")


def test_a_moved_token_file_is_not_another_run(corridor, tmp_path):
    def settings(total_steps):
        return msgspec.structs.replace(corridor, run=msgspec.structs.replace(corridor.run, total_steps=total_steps))

    train(settings(1000), tmp_path / "run")
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    tensors, header = read_archive(path)
    header["settings"]["env"]["options"]["token_file"] = "/somewhere/else"  # noqa: S105
    write_archive(path, tensors, header)
    assert train(settings(2000), tmp_path / "run", resume=True).env_steps >= 2000
