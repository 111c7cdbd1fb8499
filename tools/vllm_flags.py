"""Reads which flags and environment variables each vLLM release has, with defaults, and writes the audit's table of them.

    python tools/vllm_flags.py 0.4.2=SOURCE 0.6.3=SOURCE ... > src/llmvitals/audit/vllm_flags.tsv

SOURCE: an unpacked source distribution. Nothing of it is run: the files are read as syntax trees. Columns: name (an environment
variable has capitals), other spellings, first and last release of those read with this row, what it takes (switch, value, list,
optional), allowed values, default ('' where only the running engine knows it), 'deprecated'.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PARSERS = (
    "engine/arg_utils.py",
    "entrypoints/openai/cli_args.py",
    "entrypoints/common/cli_args.py",
    "entrypoints/launchers/cli_args.py",
    "entrypoints/cli/serve.py",
    "entrypoints/openai/api_server.py",
    "scripts.py",
)
ENGINE_CLASSES = ("EngineArgs", "AsyncEngineArgs")
FRONTEND_CLASSES = ("BaseFrontendArgs", "FrontendArgs")
MOST_CHOICES = 12
HEAD = ("name", "also", "first", "last", "takes", "choices", "default", "state")


@dataclass(frozen=True, slots=True)
class Flag:
    """What one release says of one flag."""

    name: str
    also: str
    takes: str
    choices: str
    default: str
    state: str


class Release:
    """The syntax trees of one release."""

    def __init__(self, root: Path) -> None:
        """Read what declares flags. Raises OSError or SyntaxError."""
        self.parsers = [_tree(root / "vllm" / name) for name in PARSERS if (root / "vllm" / name).is_file()]
        configs = [root / "vllm/config.py", *sorted((root / "vllm/config").glob("*.py"))]
        self.envs = _tree(root / "vllm/envs.py") if (root / "vllm/envs.py").is_file() else ast.Module([], [])
        self.classes: dict[str, ast.ClassDef] = {}
        self.names: dict[str, ast.expr] = {}
        for tree in (*(_tree(path) for path in configs if path.is_file()), *self.parsers):
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name] = node
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.names[node.targets[0].id] = node.value

    def field(self, cls: str, name: str) -> tuple[ast.expr | None, ast.expr | None]:
        """Annotation and default of a field, also of a class above."""
        found = self.classes.get(cls)
        if found is None:
            return None, None
        for node in found.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                return node.annotation, node.value
        for base in found.bases:
            if isinstance(base, ast.Name) and (told := self.field(base.id, name)) != (None, None):
                return told
        return None, None

    def default(self, value: ast.expr | None, depth: int = 0) -> str:
        """A default as text; '' where it is not written as a plain value."""
        if value is None or depth > 5:
            return ""
        if isinstance(value, ast.Constant):
            return str(value.value)
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
            return f"-{self.default(value.operand, depth + 1)}"
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            return self.default(self.field(value.value.id, value.attr)[1], depth + 1)
        if isinstance(value, ast.Name):
            return self.default(self.names.get(value.id), depth + 1)
        if isinstance(value, ast.Call):
            for word in value.keywords:
                if word.arg == "default":
                    return self.default(word.value, depth + 1)
        return ""

    def flags(self) -> Iterator[Flag]:
        """Every flag of the server's command line."""
        for tree in self.parsers:
            kwargs = dict(_kwargs_of(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                    yield from self._added(node, kwargs)
            if any(getattr(n, "attr", "") == "add_argument_group" for n in ast.walk(tree)):
                yield from self._frontend(tree)

    def _added(self, call: ast.Call, kwargs: dict[str, str]) -> Iterator[Flag]:
        options = [str(a.value) for a in call.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")]
        long = [o for o in options if o.startswith("--")]
        if not long:
            return
        dest = long[0].lstrip("-").replace("-", "_")
        words = {w.arg: w.value for w in call.keywords if w.arg}
        annotation: ast.expr | None = None
        default = words.get("default")
        for star in (w.value for w in call.keywords if w.arg is None):
            if (
                isinstance(star, ast.Subscript)
                and isinstance(star.value, ast.Name)
                and isinstance(star.slice, ast.Constant)
            ):
                annotation, below = self.field(kwargs.get(star.value.id, ""), str(star.slice.value))
                default = default or below
        for cls in ENGINE_CLASSES:
            own, value = self.field(cls, dest)
            annotation, default = annotation or own if not words else annotation, default or value
        takes = _takes(words, annotation)
        text = self.default(default) or ("False" if takes == "switch" and "action" in words else "")
        helped = " ".join(
            str(n.value) for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        )
        yield Flag(
            long[0],
            " ".join(o for o in options if o != long[0]),
            takes,
            self._choices(words.get("choices"), annotation),
            text,
            "deprecated" if "deprecated" in words or "deprecated" in helped.lower() else "",
        )

    def _frontend(self, tree: ast.Module) -> Iterator[Flag]:
        for cls in (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name in FRONTEND_CLASSES):
            for node in cls.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    if "ClassVar" in ast.unparse(node.annotation):
                        continue
                    name = f"--{node.target.id.replace('_', '-')}"
                    yield Flag(name, "", _takes({}, node.annotation), "", self.default(node.value), "")

    def _choices(self, given: ast.expr | None, annotation: ast.expr | None) -> str:
        found: list[str] = []
        node = given or annotation
        if isinstance(node, ast.Name):
            node = self.names.get(node.id)
        if isinstance(node, ast.List):
            found = [self.default(e) for e in node.elts]
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            found = [self.default(e) for e in inner]
        return " ".join(found) if all(found) and len(found) <= MOST_CHOICES else ""

    def variables(self) -> Iterator[Flag]:
        """Every environment variable that this release reads."""
        for node in self.envs.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if getattr(target, "id", "") == "environment_variables" and isinstance(node.value, ast.Dict):  # type: ignore[attr-defined]
                for key in node.value.keys:  # type: ignore[attr-defined]
                    if isinstance(key, ast.Constant):
                        yield Flag(str(key.value), "", "value", "", "", "")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _kwargs_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """``x_kwargs = get_kwargs(XConfig)``: whose fields a dictionary holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            call = node.value
            if getattr(call.func, "id", "") == "get_kwargs" and call.args and isinstance(call.args[0], ast.Name):
                yield node.targets[0].id, call.args[0].id


def _takes(words: dict[str, ast.expr], annotation: ast.expr | None) -> str:
    action = words.get("action")
    if action is not None and ("store_" in ast.unparse(action) or "Boolean" in ast.unparse(action)):
        return "switch"
    nargs = ast.unparse(words["nargs"]).strip("'\"") if "nargs" in words else ""
    if nargs == "?":
        return "optional"
    if nargs in ("+", "*"):
        return "list"
    text = ast.unparse(annotation) if annotation is not None else ""
    if "bool" in text and "type" not in words:
        return "switch"
    if re.search(r"\b[Ll]ist\[", text) and "type" not in words:
        return "list"
    return "value"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def main(arguments: list[str]) -> None:
    """Read every release and print the table, a row for each run of releases that agree."""
    given = sorted((a.split("=", 1) for a in arguments), key=lambda pair: _number(pair[0]))
    table: dict[str, list[tuple[str, Flag]]] = {}
    for version, root in given:
        release = Release(Path(root))
        seen: dict[str, Flag] = {}
        for flag in (*release.flags(), *release.variables()):
            seen.setdefault(flag.name, flag)
        for name, flag in seen.items():
            table.setdefault(name, []).append((version, flag))
    order = [version for version, _ in given]
    out = ["# releases " + " ".join(order), "\t".join(HEAD)]
    for name in sorted(table):
        runs: list[list[object]] = []
        for version, flag in table[name]:
            last = runs[-1] if runs else None
            if last and last[2] == flag and order.index(str(last[1])) + 1 == order.index(version):
                last[1] = version
            else:
                runs.append([version, version, flag])
        for first, until, flag in runs:
            assert isinstance(flag, Flag)
            cells = (name, flag.also, str(first), str(until), flag.takes, flag.choices, flag.default, flag.state)
            out.append("\t".join(" ".join(cell.split()) for cell in cells))
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
