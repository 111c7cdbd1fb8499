"""Pages that are changed in ways in which pages go wrong, and which families each change touched."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from llmvitals.telemetry.ingest.exposition import name_of

NO_NUMBERS = (
    b"NaN", b"nan", b"-1", b"-Inf", b"+Inf", b"inf", b"1e999", b"-1e-9", b"abc", b"0x10", b"--1", b"1,5", b"5%", b"1.2.3", b"\x00",
    b"\xd9\xa1", b"None", b"null", b'"3"', b"0,5", b"-", b"1e", b"O",
)  # fmt: skip
"""Value texts that no number of ours may be made of: no number at all, or one that none of these families can have."""

_STRUCTURE = (
    b"{",
    b"}",
    b'"',
    b"\\",
    b"=",
    b",",
    b" ",
    b"#",
    b"\n",
    b"\r",
    b"\t",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\x1f\x8b",
)
_PIECES = (
    *_STRUCTURE, b'\\"', b'le="', b"# TYPE ", b"# EOF\n", b" 1700000000000", b" # {a=\"b\"} 1", b"_total", b"_bucket", b"_sum",
    b"0", b"e", b"-", b"<html>", b"[" * 50, b'{"a":', b"NaN", b"\xef\xbb\xbf", b"x" * 5000, b'a="",' * 70,
)  # fmt: skip
_TYPES = (b"gauge", b"counter", b"histogram", b"summary", b"untyped", b"unknown", b"info", b"stateset", b"", b"gorge")


@dataclass
class Draft:
    """A page under change: lines without their ends, and the names that stand on lines that were touched."""

    lines: list[bytes]
    touched: set[str] = field(default_factory=set)
    all_touched: bool = False
    pack: Callable[[bytes], bytes] = bytes
    end: bytes = b"\n"

    def touch(self, at: int) -> bytes:
        """The line, noted as touched."""
        line = self.lines[at]
        text = line.removeprefix(b"# TYPE ").removeprefix(b"# HELP ")
        self.touched.add(name_of(text))
        return line

    def put(self, at: int, line: bytes) -> None:
        """Another line in its place; what it has become is touched as well."""
        self.lines[at] = line
        for part in line.splitlines():
            self.touched.add(name_of(part))

    def body(self) -> bytes:
        """The bytes of the page."""
        return self.pack(self.end.join(self.lines) + self.end)


def _samples(draft: Draft) -> list[int]:
    return [at for at, line in enumerate(draft.lines) if line and not line.startswith(b"#")] or [0]


def _edit(draft: Draft, random: Random) -> None:
    at = random.randrange(len(draft.lines))
    line = draft.touch(at)
    where = random.randrange(len(line) + 1)
    cut = random.choice((0, 0, 1, 3))
    draft.put(at, line[:where] + random.choice(_PIECES) + line[where + cut :])


def _remove(draft: Draft, random: Random) -> None:
    at = random.randrange(len(draft.lines))
    line = draft.touch(at)
    where = random.randrange(len(line) + 1)
    draft.put(at, line[:where] + line[where + random.randint(1, 12) :])


def _drop(draft: Draft, random: Random) -> None:
    at = random.randrange(len(draft.lines))
    draft.touch(at)
    draft.lines[at] = b""


def _twice(draft: Draft, random: Random) -> None:
    at = random.randrange(len(draft.lines))
    draft.lines.insert(random.randrange(len(draft.lines)), draft.touch(at))


def _value(draft: Draft, random: Random) -> None:
    at = random.choice(_samples(draft))
    draft.put(at, draft.touch(at).rpartition(b" ")[0] + b" " + random.choice(NO_NUMBERS))


def _label(draft: Draft, random: Random) -> None:
    at = random.choice(_samples(draft))
    line = draft.touch(at)
    new = random.choice(
        (b'new="1",', b'le="3",', b'engine="7",', b'x="' + b"y" * 5000 + b'",', b'dp_rank="9",', b'server="a",')
    )
    draft.put(at, line.replace(b"{", b"{" + new, 1) if b"{" in line else line)


def _type(draft: Draft, random: Random) -> None:
    found = [at for at, line in enumerate(draft.lines) if line.startswith(b"# TYPE ")]
    if found:
        at = random.choice(found)
        draft.put(at, draft.touch(at).rpartition(b" ")[0] + b" " + random.choice(_TYPES))


def _move(draft: Draft, random: Random) -> None:
    """The order of lines means nothing to a reader that looks at their text."""
    at = random.randrange(len(draft.lines))
    draft.lines.insert(random.randrange(len(draft.lines)), draft.lines.pop(at))


def _again(draft: Draft, random: Random) -> None:
    """Two writers' pages, one after the other."""
    draft.lines.extend(draft.lines[: random.randrange(len(draft.lines)) + 1])


def _ends(draft: Draft, random: Random) -> None:
    draft.end = random.choice((b"\r\n", b"\r", b" \n"))


def _wrap(draft: Draft, random: Random) -> None:
    draft.pack = random.choice((gzip.compress, lambda body: b"\xef\xbb\xbf" + body, lambda body: b"\n\n" + body))


HUGE = (
    b"1e308", b"1.7976931348623157e308", b"9" * 400, b"1" * 5000, b"18446744073709551616", b"9007199254740993", b"1e-400",
    b"4.9e-324", b"1_000", b"+5", b".5", b"5.", b"1E5", b"0x1p3", b"-0.0", b"1e+05", b"00012",
)  # fmt: skip
"""Numbers at the ends of what a float holds, and spellings that some readers of numbers take and others do not."""


def _huge(draft: Draft, random: Random) -> None:
    at = random.choice(_samples(draft))
    draft.put(at, draft.touch(at).rpartition(b" ")[0] + b" " + random.choice(HUGE))


def _escape(draft: Draft, random: Random) -> None:
    """Backslashes in a label's value: an odd number eats the quote behind it."""
    at = random.choice(_samples(draft))
    line = draft.touch(at)
    deep = b"\\" * random.choice((1, 2, 3, 7, 64, 2001)) + random.choice((b"", b"n", b'"', b"t", b"u0041", b"\xff"))
    draft.put(at, line.replace(b'="', b'="' + deep, 1))


def _exemplar(draft: Draft, random: Random) -> None:
    """What OpenMetrics may have behind a value."""
    at = random.choice(_samples(draft))
    tail = random.choice(
        (
            b' # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.5 1700000000.123',
            b' # {trace_id="x"} NaN',
            b" # {} 1",
            b" # {",
            b" 1700000000.123",
            b' 1700000000000 # {a="b",a="c"} 1e999 -5',
            b" -9223372036854775809",
        )
    )
    draft.put(at, draft.touch(at) + tail)


def _swap(draft: Draft, random: Random) -> None:
    """The labels of one line on another's name."""
    one, other = random.choice(_samples(draft)), random.choice(_samples(draft))
    first, second = draft.touch(one), draft.touch(other)
    (name, brace, labels), (name2, brace2, labels2) = first.partition(b"{"), second.partition(b"{")
    draft.put(one, name + brace2 + labels2)
    draft.put(other, name2 + brace + labels)


CHANGES = (
    *(_edit, _edit, _edit, _remove, _drop, _twice, _value, _value, _label, _type, _move, _again, _ends, _wrap),
    *(_huge, _escape, _exemplar, _swap),
)


def changed(seed: bytes, random: Random, most: int = 5) -> Draft:
    """A page after one to ``most`` changes; truncation comes last and touches what it cuts off."""
    draft = Draft(seed.splitlines())
    for _ in range(random.randint(1, most)):
        random.choice(CHANGES)(draft, random)
    return draft


def cut(body: bytes, random: Random) -> bytes:
    """The page up to anywhere."""
    return body[: random.randrange(len(body) + 1)]
