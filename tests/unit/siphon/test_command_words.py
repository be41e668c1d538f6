import pytest

from soulslab.errors import ConfigError
from soulslab.siphon.command_words import split_words


@pytest.mark.parametrize(
    ("line", "windows", "others"),
    [
        ("hold W 0.2", ["hold", "W", "0.2"], None),
        (r"capture C:\temp\a.png", ["capture", r"C:\temp\a.png"], ["capture", "C:tempa.png"]),
        ('capture "C:\\my pictures\\"', ["capture", "C:\\my pictures\\"], ConfigError),
        (r"capture my\ picture.png", ["capture", "my\\", "picture.png"], ["capture", "my picture.png"]),
        ("capture 'a b'.png #1", ["capture", "a b.png", "#1"], None),
        ("set name ''", ["set", "name", ""], None),
        ("", [], None),
        ("tap 'W", ConfigError, None),
    ],
)
@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_a_line_is_split_by_the_rules_of_the_system(monkeypatch, platform, line, windows, others):
    monkeypatch.setattr("sys.platform", platform)
    words = windows if platform == "win32" or others is None else others
    if words is ConfigError:
        with pytest.raises(ConfigError, match="cannot be split into words: No closing quotation"):
            split_words(line)
    else:
        assert split_words(line) == words
