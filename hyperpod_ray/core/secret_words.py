"""What looks like a secret: by the name of a variable, or by the form of a value."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAME = re.compile(
    r"(^|_)(PASSWORD|PASSWD|SECRET|SECRET_ACCESS_KEY|TOKEN|API_KEY|APIKEY|PRIVATE_KEY|CREDENTIALS)(_|$)", re.IGNORECASE
)
_ABOUT = re.compile(r"(TOKENIZERS|_TOKENS?_(ID|LENGTH|LIMIT)$|TOKEN_FILE$|SECRET_NAME$|SECRET_ARN$)", re.IGNORECASE)
"""Names that speak of a secret or a token without having one."""
_VALUE = re.compile(
    r"(?<![A-Za-z0-9_-])("
    r"hf_[A-Za-z0-9]{20,}"  # Hugging Face
    r"|sk-[A-Za-z0-9_-]{20,}"  # OpenAI, Anthropic
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abpr]-[A-Za-z0-9-]{10,}"  # Slack
    r"|(AKIA|ASIA)[A-Z0-9]{16}"  # an AWS access key
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"  # Google
    r"|dckr_pat_[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}"
    r"|eyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]+"  # a JSON Web Token
    r")(?![A-Za-z0-9])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^'\"]*"
    # a URL with a password; of its scheme one character is enough, and all of them take quadratic time on a long word
    r"|[a-z0-9+.-]://[^/\s:@]+:[^/\s:@]+@"
)


_USER = re.compile(r"([A-Za-z0-9+.-]://)[^\s'\"]*@")
"""What stands before the host of an address: a user, a password, or a token."""
_NAMED = re.compile(
    r"(\b(?:bearer|basic)\s+(?=(?-i:[^\s'\"]*[A-Z0-9]))|(?:password|passwd|secret|token|api_?key|access_key|credentials)=)(?![$<{(…/])[^\s'\"`,;]{6,}",
    re.IGNORECASE,
)
"""What stands after a word that announces a secret."""


def masked(text: str) -> str:
    """A text without what has the form of a secret: messages reach logs and pull requests."""
    return _NAMED.sub(r"\1…", _VALUE.sub("(a secret, not shown)", _USER.sub(r"\1…@", text)))


def name_of_secret(name: str) -> bool:
    """Whether a variable of this name usually contains a secret."""
    return bool(_NAME.search(name)) and not _ABOUT.search(name)


def value_of_secret(value: str) -> bool:
    """Whether a value has the form of a known kind of token or key."""
    return bool(_VALUE.search(value))


def of_variable(name: str, value: str) -> bool:
    """Whether an environment variable looks like a secret. An empty one, a path, and a number of tokens are none."""
    if value_of_secret(value):
        return True
    number = value.isdigit() and "TOKEN" in name.upper()
    return bool(value) and name_of_secret(name) and not value.startswith("/") and not number


def options_of_command(words: Sequence[str]) -> list[str]:
    """Options of a command line whose value looks like a secret; `command` for a value that stands alone."""
    options = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        assignment = not word.startswith("-") and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        if (word.startswith("-") or assignment) and equals and of_variable(_variable(name), value):
            options.append(name)
        elif index and words[index - 1].startswith("--") and "=" not in words[index - 1]:
            before = words[index - 1]
            if not word.startswith("-") and of_variable(_variable(before), word) and not word.isdigit():
                options.append(before)
        elif value_of_secret(word):
            options.append("command")
    return options


def _variable(option: str) -> str:
    return option.lstrip("-").replace("-", "_").upper()
