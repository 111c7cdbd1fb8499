"""What all tests share: the tools some need, the recordings, and what the summary says about both."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support import reliability as table
from support.tools import tool

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
IN_CI = bool(os.environ.get("CI"))

# marker -> for each tool: any of these commands will do (scripts/debian.sh installs the same)
TOOLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "prometheus": (("prometheus",), ("promtool",), ("prometheus-alertmanager", "alertmanager")),
    "browser": (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)),
    "tls": (("openssl",),),
    "cc": (("cc", "gcc", "clang"),),
    "kubernetes": (("kubectl",),),
    "helm": (("helm",),),  # this and the next come with the environment of the tests
    "hadolint": (("hadolint",),),
    "storage": (("victoria-metrics",),),
    "systemd": (("systemd-analyze",),),
}
RECORDING = "recording"  # the property under which a test names the recording that it ran


def absent_tools(marker: str) -> list[str]:
    """The tools of a marker that are not on the PATH, by their usual name."""
    return [names[0] for names in TOOLS[marker] if not any(map(tool, names))]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out where its tool is absent, except in CI, where that is a failure."""
    for marker in TOOLS:
        absent = absent_tools(marker) if item.get_closest_marker(marker) else []
        if absent and IN_CI:
            pytest.fail(f"CI leaves no test out, but {', '.join(absent)} is absent", pytrace=False)
        if absent:
            pytest.skip(f"needs {', '.join(absent)}: `make test` says how to install it")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of full recordings (LLMVITALS_SHARED, default ../shared); where it is absent the test is skipped."""
    folder = Path(os.environ.get("LLMVITALS_SHARED") or ROOT.parent / "shared")
    if not (folder / "captures").is_dir():
        pytest.skip(f"no recordings at {folder} (LLMVITALS_SHARED)")
    return folder


@pytest.fixture
def ran_recording(record_property):
    """Call with a recording's path: the summary counts the different ones that really ran."""

    def note(path: Path) -> None:
        origin = "fixtures" if FIXTURES in Path(path).resolve().parents else "shared"
        record_property(RECORDING, f"{origin}/{Path(path).name}")

    return note


@pytest.fixture
def reliability(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> table.Say:
    """Call with part, behaviour, what must hold and what came of it: a row of docs/reliability.md, see its module."""
    return table.sayer(request.node.nodeid, record_property)


HEARD = pytest.StashKey[table.Heard]()
AMISS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Collect what reports say for the table of reliability; workers hand theirs on."""
    if not hasattr(config, "workerinput"):
        config.stash[HEARD] = heard = table.Heard()
        config.pluginmanager.register(_Listener(heard), "reliability-rows")


class _Listener:
    def __init__(self, heard: table.Heard) -> None:
        self.pytest_runtest_logreport = heard.note


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hold the rows that were said against docs/reliability.md."""
    config = session.config
    if HEARD in config.stash and not config.option.collectonly:
        stopped = session.testsfailed > 0 and bool(config.option.maxfail)
        narrowed = stopped or _narrowed(config)
        config.stash[AMISS] = amiss = table.settle(config.stash[HEARD], narrowed=narrowed, environment=os.environ)
        if amiss and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _narrowed(config: pytest.Config) -> bool:
    """Whether only some tests of a file may have run."""
    option = config.option
    chosen = (option.keyword, option.markexpr, option.deselect, getattr(option, "lf", False))
    return any(chosen) or any("::" in word for word in config.args)


def recordings_run(reports: list[pytest.TestReport]) -> dict[str, int]:
    """How many different recordings the reports name, by where they lie. Properties survive the way from a worker."""
    named = {str(value) for report in reports for key, value in report.user_properties if key == RECORDING}
    return {origin: sum(name.startswith(f"{origin}/") for name in named) for origin in ("fixtures", "shared")}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many recordings ran and what was left out for want of a tool."""
    stats = terminalreporter.stats
    counts = recordings_run([*stats.get("passed", []), *stats.get("failed", [])])
    terminalreporter.write_line(
        f"recordings run: {counts['fixtures']} committed, {counts['shared']} from LLMVITALS_SHARED"
    )
    for marker in TOOLS:
        if absent := absent_tools(marker):
            terminalreporter.write_line(f"left out: tests marked '{marker}' ({', '.join(absent)} absent)")
    for line in terminalreporter.config.stash.get(AMISS, []):
        terminalreporter.write_line(f"docs/reliability.md (`make reliability` writes it): {line}", red=True)
