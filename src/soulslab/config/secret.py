"""Secrets, such as the token of a server; they are not printed and not written to files."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final, NoReturn, Self

from soulslab.errors import ConfigError

#: Options of environments that hold a secret or the path of one. They are not written to files that people share.
SECRET_OPTIONS: Final = ("token", "token_file")

_SHOWN: Final = "***"


class Secret:
    """A text that is printed as ``***`` and cannot be serialised.

    The object is false if the text is empty, which means no secret.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return _SHOWN

    def __format__(self, spec: str) -> str:
        return format(_SHOWN, spec)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ConfigError(
            "a secret cannot be serialised, so it cannot be sent to another process; give the path of a file that "
            "contains it (token_file), which each process reads"
        )


def reveal(text: str | Secret) -> str:
    """Return the text of a secret; text is returned unchanged."""
    return text.reveal() if isinstance(text, Secret) else text


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of an environment without secrets, to be written to a file that people share."""
    return {
        name: value for name, value in options.items() if name not in SECRET_OPTIONS and not isinstance(value, Secret)
    }


def refuse_plain_token(options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if options of an environment, from a file or a command line, hold a token as plain text."""
    if isinstance(options.get("token"), str):
        raise ConfigError(
            "is not a setting, because settings are written to files; write the token to a file and give its path with "
            "--token-file (soulslab remove-tokens removes the token from the files of an earlier run)",
            path="env.options.token",
        )
