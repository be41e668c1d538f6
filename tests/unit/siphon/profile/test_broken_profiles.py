"""One file for each mistake in a profile; its first lines are the expected place and message."""

from pathlib import Path

import pytest

from soulslab.errors import ProfileError
from soulslab.siphon.profile import load_profile

FOLDER = Path(__file__).parent / "broken_profiles"
FILES = sorted(FOLDER.glob("*.toml"))


def test_the_corpus_is_there():
    assert len(FILES) >= 60


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_mistake(file):
    at, says = (line.partition(":")[2].strip() for line in file.read_text(encoding="utf-8").splitlines()[:2])
    with pytest.raises(ProfileError) as caught:
        load_profile(file)
    assert caught.value.path == at
    assert says in caught.value.problem
    assert str(caught.value).startswith(str(file))
    assert len(str(caught.value)) < 2000
