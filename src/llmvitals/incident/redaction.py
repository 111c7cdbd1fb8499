"""What must not leave: secrets by a table of patterns, and on request the names of machines, models and people.

Whatever goes into a report passes through here first (pages, names, notes), and the report is made of what came out: nothing
that was taken out can come back by another way. A secret becomes ``[secret-1]``, the same one the same number, so that two
series that differ by it alone stay two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.incident.aliases import Aliases


@dataclass(frozen=True, slots=True)
class Pattern:
    """One form in which secrets stand in a text. The group ``s`` is the secret, the rest stays."""

    what: str
    form: re.Pattern[str]


_NAMED = (
    r"api[_-]?key|access[_-]?key(?:[_-]?id)?|secret|token(?!s|iz)|passw(?:or)?d|passphrase|pwd|credentials?|private[_-]?key|"
    r"session[_-]?id|cookie|signature"
)


_IS = r"[\\\"']*\s*[=:]\s*"


def _p(what: str, form: str, flags: int = re.IGNORECASE) -> Pattern:
    return Pattern(what, re.compile(form, flags))


PATTERNS: tuple[Pattern, ...] = (
    _p(
        "a private key",
        r"(?P<s>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))",
        re.DOTALL,
    ),
    _p("user and password of a URL", r"://(?P<s>[^\s\"'<>]+)@"),
    _p("the query of a URL", r"://[^\s\"'<>?]*\?(?P<s>[^\s\"'<>]+)"),
    _p(
        "an authorization header",
        r"\b(?:proxy-)?authorization\b[\\\"']*\s*[:=]\s*[\\\"']*(?P<s>(?:[a-z]+\s+)?[^\s\"']+)",
    ),
    _p("a bearer token", r"\bbearer[\s:=]+(?P<s>[\w.~+/=-]{6,})"),
    _p("basic credentials", r"\bbasic\s+(?P<s>(?=[^\s]*[0-9=A-Z])[A-Za-z0-9+/=]{8,})", 0),
    _p("a quoted value by its name", rf"[\w.-]*(?:{_NAMED})[\w.-]*{_IS}\\?[\"'](?P<s>[^\"'\n]+)"),
    _p("a value by its name", rf"[\w.-]*(?:{_NAMED})[\w.-]*{_IS}(?P<s>[^\s\"']+)"),
    _p("a flag's value", rf"--[\w-]*(?:{_NAMED})[\w-]*[\s=]+[\"']?(?P<s>[^\s\"']+)"),
    _p("a password in words", r"\b(?:password|passphrase|passwd|api key|secret)\s+(?:is|was)\s+[\"']?(?P<s>[^\s\"']+)"),
    _p("a web token (JWT)", r"(?P<s>\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?)", 0),
    _p("a key with a known beginning: OpenAI and many others", r"(?P<s>\b[spr]k[-_][\w-]{8,})", 0),
    _p("Hugging Face, Replicate, Groq, npm", r"(?P<s>\b(?:hf|r8|gsk|npm|xai|pplx)[_-]\w{8,})", 0),
    _p("GitHub, GitLab", r"(?P<s>\b(?:gh[pousr]_|github_pat_|glpat-)[\w-]{8,})", 0),
    _p("Slack", r"(?P<s>\bxox[a-z]-[\w-]{8,})", 0),
    _p("AWS", r"(?P<s>\b(?:AKIA|ASIA)[A-Z0-9]{12,})", 0),
    _p("Google", r"(?P<s>\b(?:AIza[\w-]{20,}|ya29\.[\w.-]{8,}))", 0),
    _p("NVIDIA, Vault, PyPI, DigitalOcean", r"(?P<s>\b(?:nvapi-|hvs\.|pypi-|dop_v1_)[\w-]{8,})", 0),
    _p("an e-mail address", r"(?P<s>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"),
)
"""In this order. Names with ``tokens`` in them (``max_num_batched_tokens``) are none."""

SECRET_LABELS = re.compile(
    r"(?:.*_)?(?:api_?key|access_key|secret|passw(?:or)?d|authorization|cookie|email|(?:access|auth|bearer|api|id)_token)"
    r"|token|credentials?|.*_email",
    re.IGNORECASE,
)
"""Labels whose whole value is one: LiteLLM's ``hashed_api_key`` and ``user_email`` are."""

_LABEL = re.compile(r'([A-Za-z_][\w.:/-]*)="((?:[^"\\\n]|\\.)*)"')
_SAMPLE = re.compile(r'\s*[A-Za-z_:][\w:.]*\s*(?:\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})?\s+[-+.\w]+(?:\s+[-+.\w]+)?\s*')
_EXEMPLAR = re.compile(r'#\s*\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}[-+.\w\s]*')
_HEAD = re.compile(r"# (?:TYPE|UNIT) \S+ \S+\s*")
_UNESCAPES = re.compile(r"\\(.)")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Redactor:
    """Cleans texts and pages of one report. ``aliases``: what names are called instead, on request."""

    def __init__(self, aliases: Aliases | None = None) -> None:
        self._aliases = aliases or Aliases()
        self._secrets: dict[str, str] = {}
        self._known: dict[tuple[str, str], str] = {}

    @property
    def secrets(self) -> int:
        """How many different ones were taken out so far."""
        return len(self._secrets)

    def secretless(self, text: str) -> str:
        """A text without secrets; names stay."""
        for pattern in PATTERNS:
            text = pattern.form.sub(self._hidden, text)
        return text

    def text(self, text: str) -> str:
        """A text as it may leave."""
        return self._aliases.text(self.secretless(text))

    def name(self, name: str) -> str:
        """The name of a target, a service or a model as it may leave."""
        return self._aliases.name(self.secretless(name))

    def label(self, label: str, value: str) -> str:
        """A label's value as it may leave."""
        found = self._known.get((label, value))
        if found is None:
            whole = bool(value) and SECRET_LABELS.fullmatch(label) is not None
            found = self._placeholder(value) if whole else self._aliases.label(label, self.secretless(value))
            self._known[label, value] = found
        return found

    def page(self, body: bytes) -> bytes:
        """A metrics page, or the document that stands for one, as it may leave. Its numbers stay as they are."""
        text = body.decode(errors="surrogateescape")
        if text[:64].lstrip()[:1] in "{[<":
            return self.text(text).encode(errors="surrogateescape")
        return "\n".join(map(self._line, text.split("\n"))).encode(errors="surrogateescape")

    def _line(self, line: str) -> str:
        if line.startswith("#"):
            return line if _HEAD.fullmatch(line) else self.text(line)
        sample = _SAMPLE.match(line)
        rest = line[sample.end() :] if sample else line
        if sample is None or (rest.strip() and not _EXEMPLAR.fullmatch(rest.strip())):
            return self.text(line)  # no sample of any format
        return _LABEL.sub(self._pair, line) if '"' in line else line

    def _pair(self, found: re.Match[str]) -> str:
        return f'{found[1]}="{self.label(found[1], unescaped(found[2])).translate(_ESCAPES)}"'

    def _hidden(self, found: re.Match[str]) -> str:
        start, end = found.span("s")
        at = found.start()
        return f"{found[0][: start - at]}{self._placeholder(found['s'])}{found[0][end - at :]}"

    def _placeholder(self, secret: str) -> str:
        if _PLACEHOLDER.fullmatch(secret):
            return secret
        return self._secrets.setdefault(secret, f"[secret-{len(self._secrets) + 1}]")


_PLACEHOLDER = re.compile(r"\[secret-\d+\][,;.)}\]]*")


def unescaped(value: str) -> str:
    """A label's value, from how it stands on a page."""
    return _UNESCAPES.sub(_unescaped, value) if "\\" in value else value


def _unescaped(found: re.Match[str]) -> str:
    return {"n": "\n"}.get(found[1], found[1])


def cleaned(value: object, clean: Callable[[str], str]) -> object:
    """A value made of mappings, lists and plain values, each text in it (keys too) cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {cleaned(key, clean): cleaned(one, clean) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(one, clean) for one in value]
    return value
