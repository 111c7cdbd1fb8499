"""Commands in documents: found in their blocks of shell, and each held against the program that it would start.

Nothing here reaches a cluster, a registry or a server. What can be done without one is done (kustomize, a local patch, helm
template, a compose file read); of the rest the words are checked: options against the program's own help, objects, ports and
files against what there is.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import click
import yaml

from llmvitals.cli import group
from llmvitals.exporters.board import Board
from llmvitals.exporters.server import Site
from llmvitals.settings import Settings
from support.manifests import ROOT, Manifest, built, containers, documents, problems
from support.tools import needed

SHELL = re.compile(r"^```(?:sh|bash|shell)\n(.*?)^```", flags=re.M | re.S)
FENCED = re.compile(r"^```.*?^```", flags=re.M | re.S)
IN_TEXT = re.compile(r"`((?:kubectl|helm|docker|llmvitals)\s[a-z][^`\s]*\s[^`]+)`")
ROUTES = {route.path for route in Site(Board(), Settings()).app().routes}
Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a document: where it stands, and its words."""

    place: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}: {shlex.join(self.words)}"


@dataclass(slots=True)
class World:
    """What the commands may speak of. ``folders``: those that a reader makes, as they are made by a test.

    ``objects``: what is in the cluster once the document was followed. ``tags``: images built so far.
    """

    folders: Mapping[str, Path]
    objects: tuple[Manifest, ...]
    engines: tuple[Manifest, ...] = ()
    tags: set[str] = field(default_factory=set)

    def path(self, word: str) -> Path:
        """The file or folder that a word means, in the reader's folders or the checkout."""
        first, _, rest = re.sub(r"^\.{1,2}/", "", word).rstrip("/").partition("/")
        found = self.folders[first] / rest if first in self.folders else ROOT / word.removeprefix("./")
        assert found.exists(), f"there is no {word}"
        return found


def commands(document: Path) -> Iterator[Command]:
    """Each command in the blocks of shell of a document, and in its text; a pipe or a list is several.

    A program and one word, in the text, is a name and no command. Comments, prompts and what comes out are none.
    """
    whole = document.read_text(encoding="utf-8")
    found = [(block.start(1), block[1]) for block in SHELL.finditer(whole)]
    text = FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), whole)
    found += [(span.start(1), re.sub(r"\s+", " ", span[1])) for span in IN_TEXT.finditer(text)]
    for start, block in sorted(found):
        first = whole[:start].count("\n") + 1
        for number, line in enumerate(re.sub(r"\\\n\s*", " ", block).splitlines()):
            for part in _split(shlex.split(line.removeprefix("$ "), comments=True)):
                yield Command(f"{document.name}:{first + number}", tuple(part))


def check(command: Command, world: World) -> None:
    """Raises AssertionError for a command that would not do what the document says of it, and for one that nobody checks."""
    words = list(command.words)
    while words and (words[0] == "sudo" or re.fullmatch(r"[A-Z_]+=.*", words[0])):
        words.pop(0)
    if not words:
        return
    checker = CHECKERS.get(words[0])
    assert checker is not None, f"{command}: nobody checks '{words[0]}'"
    try:
        checker(words[1:], world)
    except AssertionError as wrong:
        raise AssertionError(f"{command}: {wrong}") from None


def _split(words: Words) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in {"|", "&&", "||", ";", "&"}:
            yield part
            part = []
        elif re.match(r"\d?[<>]", word):
            break  # where the output goes
        else:
            part.append(word)
    if part:
        yield part


def _options(words: Words) -> dict[str, str]:
    """Long and short options with their values, which may stand behind ``=`` or as the next word."""
    found = {}
    for at, word in enumerate(words):
        if word.startswith("-") and word != "-":
            name, _, value = word.partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            found[name] = value or ("" if following.startswith("-") else following)
    return found


def _kubectl(words: Words, world: World) -> None:
    valued = {"-n", "--namespace", "-l", "-p", "-o", "-k", "-f", "--type", "--timeout", "--for"}
    plain, skip = [], False
    for word in words:
        if not skip and not word.startswith("-"):
            plain.append(word)
        skip = word in valued
    verb, rest = plain[0], plain[1:]
    allowed = _help(verb)
    for option in _options(words):
        assert re.search(rf"(^|\s){re.escape(option)}[=,:\s]", allowed, flags=re.M), f"kubectl {verb} knows no {option}"
    options = _options(words)
    space = options.get("-n") or options.get("--namespace")
    spaces = {
        one["metadata"]["namespace"] for one in (*world.objects, *world.engines) if "namespace" in one["metadata"]
    }
    assert space is None or space in spaces, f"there is no namespace {space}"
    if verb == "kustomize" or "-k" in options:
        made = built(world.path(rest[0] if verb == "kustomize" else options["-k"]))
        assert [wrong for one in made for wrong in problems(one)] == []
        large = any(len(json.dumps(one)) > 256 * 1024 for one in made)
        assert verb != "apply" or not large or "--server-side" in options, (
            "an object is too large but for --server-side"
        )
    elif "-f" in options:
        made = documents(world.path(options["-f"]).read_text())
        assert [wrong for one in made for wrong in problems(one)] == []
    else:
        _objects(verb, rest, words, world)


def _objects(verb: str, rest: Words, words: Words, world: World) -> None:
    """Verbs that ask a cluster: the object must be one of those that are there, and so must the port."""
    if verb in {"label", "patch", "annotate"}:
        kind, name = rest[0], rest[1]
        target = next((o for o in _of(kind, world) if o["metadata"]["name"] == name), None)
        if kind in {"node", "namespace"}:  # as it was before anybody labelled it
            target = {"apiVersion": "v1", "kind": kind.capitalize(), "metadata": {"name": name.lower()}}
            words = [name.lower() if word == name else word for word in words]
        assert target is not None, f"there is no {kind} {name}"
        changed = _locally(verb, rest, words, target)
        assert changed != target, "it changes nothing"
        assert problems(changed) == []
    elif whole := next((word for word in rest if "/" in word), ""):
        kind, _, name = whole.partition("/")
        (target,) = [o for o in _of(kind, world) if o["metadata"]["name"] == name]
        if verb == "port-forward":
            port = int(rest[-1].rpartition(":")[2])
            inner = target["spec"].get("template")
            ports = [p["containerPort"] for c in containers(inner) for p in c["ports"]] if inner else []
            assert port in (ports or [p["port"] for p in target["spec"]["ports"]]), f"{name} has no port {port}"


def _locally(verb: str, rest: Words, words: Words, target: Manifest) -> Manifest:
    """What kubectl itself makes of the object, asking nobody."""
    own = [word for word in words if word not in {verb, *rest[:2], "-n", "--namespace"}]
    space = target["metadata"].get("namespace")
    own = [word for word in own if word != space]
    done = subprocess.run(
        [needed("kubectl"), verb, "--local", "-f", "-", *own, "-o", "json"],
        input=json.dumps(target), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _of(kind: str, world: World) -> list[Manifest]:
    full = {"svc": "service", "deploy": "deployment", "ds": "daemonset", "ns": "namespace", "cm": "configmap"}.get(
        kind, kind
    )
    return [one for one in (*world.objects, *world.engines) if one["kind"].lower() == full.removesuffix("s")]


@cache
def _help(*verb: str) -> str:
    texts = [
        subprocess.run([needed("kubectl"), *words], capture_output=True, text=True, check=False).stdout
        for words in ((*verb, "--help"), ("options",))
    ]
    assert "Usage:" in texts[0], f"kubectl has no {verb[0]}"
    return "\n".join(texts)


def _helm(words: Words, world: World) -> None:
    verb = words[0]
    if verb in {"install", "upgrade", "template", "lint"}:
        chart = next(word for word in words if "/" in word and (ROOT / word / "Chart.yaml").is_file())
        drop = {"install", "upgrade", "template", "lint", "--install", "--create-namespace", chart}
        own = [word for word in words if word not in drop]
        own = [
            str(world.path(word)) if at and own[at - 1] in {"-f", "--values"} else word for at, word in enumerate(own)
        ]
        line = (
            ["lint", str(ROOT / chart), *own] if verb == "lint" else ["template", *own[:1], str(ROOT / chart), *own[1:]]
        )
        done = subprocess.run([needed("helm"), *line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr or done.stdout
        if verb != "lint":
            assert [wrong for one in documents(done.stdout) for wrong in problems(one)] == []
        return
    done = subprocess.run([needed("helm"), verb, "--help"], capture_output=True, text=True, check=False)
    assert f"helm {verb}" in done.stdout, f"helm has no {verb}"


def _docker(words: Words, world: World) -> None:
    options = _options(words)
    if words[0] == "build":
        assert world.path(options.get("-f", "Dockerfile")).is_file()
        assert words[-1] == ".", "the image is built from the whole checkout"
        world.tags.add(options["-t"])
    elif words[0] in {"push", "run"}:
        images = [word for word in words if word in world.tags]
        assert images, f"no image was built that it means: {sorted(world.tags)}"
        if words[0] == "run" and (own := words[len(words) - list(words)[::-1].index(images[-1]) :]):
            _llmvitals(own, world)
    else:
        assert words[0] == "compose", f"nobody checks docker {words[0]}"
        file = options.get("-f") or options["--file"]
        assert yaml.safe_load(world.path(file).read_text())["services"]


def _llmvitals(words: Words, _: World) -> None:
    """Parsed by the command itself, and not run."""
    context, args = click.Context(group), list(words)
    command: click.Command | None = group
    while isinstance(command, click.Group):
        command = command.get_command(context, args[0])
        assert command is not None, f"there is no command {args[0]}"
        args.pop(0)
    try:
        assert command is not None
        command.make_context("llmvitals", args)
    except click.ClickException as wrong:
        raise AssertionError(wrong.format_message()) from None
    except click.exceptions.Exit:
        return  # --help


def _curl(words: Words, _: World) -> None:
    urls = [word for word in words if re.match(r"https?://", word)]
    assert urls, "it asks no address"
    for url in map(urlsplit, urls):
        assert url.port != 9464 or (url.path or "/") in ROUTES, f"the exporter has no {url.path}"


def _file(at: int) -> Callable[[Words, World], None]:
    def checked(words: Words, world: World) -> None:
        world.path([word for word in words if not word.startswith("-")][at])

    return checked


def _anything(_: Words, __: World) -> None:
    """A command of the shell, or of a tool that says by itself what is wrong."""


CHECKERS: dict[str, Callable[[Words, World], None]] = {
    "kubectl": _kubectl,
    "helm": _helm,
    "docker": _docker,
    "llmvitals": _llmvitals,
    "curl": _curl,
    "cp": _file(0),
    "install": _file(-2),
    "promtool": _file(-1),
    "/opt/llmvitals/bin/pip": _file(-1),
    "/usr/bin/python3": _anything,
    **dict.fromkeys(
        ("mkdir", "cd", "export", "openssl", "htpasswd", "systemctl", "journalctl", "base64", "jq"), _anything
    ),
}
