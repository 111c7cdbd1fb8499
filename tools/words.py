"""Brings the translations of the app up to date with its texts: ``python tools/words.py``, ``--check`` fails where they are not.

Texts are those of every ``t("...")`` of the pages, and of the tables and forms that ``llmvitals.app.vocabulary``,
``llmvitals.audit.vocabulary`` and ``llmvitals.loadtest.vocabulary`` list. What is not translated yet has an empty translation in
the file; what no page says any more goes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import click
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from llmvitals.app.runbook import ENGLISH, LANGUAGES
from llmvitals.app.translation import file_of
from llmvitals.app.vocabulary import texts
from llmvitals.audit.vocabulary import texts as of_audit
from llmvitals.data import folder
from llmvitals.loadtest.vocabulary import texts as of_load_tests

CALLS = frozenset({"t", "later"})


def of_pages() -> Iterator[str]:
    """The texts that the pages write out."""
    for file in sorted(folder("app").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in CALLS and node.args:
                yield from _written(node.args[0])


def _name(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _written(text: ast.expr) -> Iterator[str]:
    """A text, or both of ``one if here else another``."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        yield text.value
    elif isinstance(text, ast.IfExp):
        yield from (*_written(text.body), *_written(text.orelse))
    elif isinstance(text, ast.JoinedStr):
        raise SystemExit(f"t() takes a text with {{names}} and their values, not an f-string: {ast.unparse(text)}")


def wanted() -> tuple[str, ...]:
    """Every text, each once, sorted, so that a new one is one place in the file."""
    return tuple(sorted({*of_pages(), *of_audit(), *of_load_tests(), *texts()}))


def renewed(language: str, known: Catalog) -> bytes:
    """The file of a language: every text with its translation, or an empty one."""
    made = Catalog(locale=language, header_comment="# Texts of the app; made up to date by tools/words.py.")
    for text in wanted():
        old = known.get(text)
        made.add(text, str(old.string) if old is not None and old.string else "")
        made[text].flags.discard("python-brace-format")
    out = BytesIO()
    write_po(out, made, width=0, omit_header=True)
    head = f'msgid ""\nmsgstr ""\n"Language: {language}\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n\n'
    return head.encode() + out.getvalue()


def main() -> int:
    """Writes, or checks; prints what has no translation."""
    differs = 0
    for language in LANGUAGES:
        if language == ENGLISH:
            continue
        path: Path = file_of(language)
        before = path.read_bytes() if path.is_file() else b""
        known = read_po(BytesIO(before), locale=language)
        after = renewed(language, known)
        left = [text for text in wanted() if not (known.get(text) and known[text].string)]
        click.echo(f"{path.name}: {len(wanted())} texts, {len(left)} without a translation")
        for text in left if "--list" in sys.argv else left[:5]:
            click.echo(f"  {text}")
        if "--check" in sys.argv:
            differs += after != before or bool(left)
        else:
            path.write_bytes(after)
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
