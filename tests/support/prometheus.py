"""Real Prometheus and Alertmanager processes for tests: started on free loopback ports, ended by their own handle."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from llmvitals.series import Series, Snapshot
from support.waiting import free_port, wait_for

Points = dict[Series, list[tuple[int, float]]]
"""Series with their samples: times in whole milliseconds, in order."""


def binary(name: str) -> str:
    """The program's path; skips the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def fetch(url: str) -> bytes | None:
    """The body of a successful GET, else None."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def openmetrics(points: Mapping[Series, Iterable[tuple[int, float]]]) -> Iterator[str]:
    """Samples as the lines of OpenMetrics text, one by one, as there may be millions; times in whole milliseconds.

    The parser cuts a timestamp down to milliseconds after a multiplication of floats, so half a millisecond is added to
    stay clear of the edge.
    """
    for key, samples in sorted(points.items(), key=lambda item: item[0]):
        labels = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in key.labels)
        yield from (f"{key.name}{{{labels}}} {_value(v)} {t // 1000}.{t % 1000:03d}5\n" for t, v in samples)
    yield "# EOF\n"


def points_of(snapshots: Iterable[Snapshot]) -> Points:
    """Snapshots turned on their side: every series with its samples, times in milliseconds."""
    points: Points = {}
    for snapshot in snapshots:
        for key, value in snapshot.samples.items():
            points.setdefault(key, []).append((round(snapshot.t * 1000), value))
    return points


def joined(parts: Iterable[Points]) -> Points:
    """Points of several courses as those of one store, in order of time."""
    found: Points = {}
    for part in parts:
        for key, samples in part.items():
            found.setdefault(key, []).extend(samples)
    return {key: sorted(samples) for key, samples in found.items()}


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(float(value))


def load_blocks(lines: Iterable[str], data: Path) -> None:
    """Write OpenMetrics text, in whatever pieces, into a Prometheus data folder as blocks."""
    data.mkdir(parents=True, exist_ok=True)
    source = data.parent / f"{data.name}.om"
    with source.open("w", encoding="utf-8") as sink:
        sink.writelines(lines)
    command = [binary("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(source), str(data)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)


def promtool_tests(
    folder: Path,
    rules: Sequence[str],
    inputs: Sequence[Mapping[str, Any]],
    checks: Sequence[Mapping[str, Any]],
    *,
    interval: str,
) -> None:
    """Run one unit test of rule files with promtool: ``checks`` are its ``promql_expr_test``. Fails with what it says."""
    test = {"interval": interval, "input_series": list(inputs), "promql_expr_test": list(checks)}
    path = folder / "made_test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": list(rules), "evaluation_interval": interval, "tests": [test]}))
    command = [binary("promtool"), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    if done.returncode:
        pytest.fail(f"{done.stdout}{done.stderr}"[:3000])


class Service:
    """A child process with an HTTP address. ``args`` may use the port that was chosen."""

    def __init__(self, folder: Path, ready: str) -> None:
        self.folder, self._ready, self.port = folder, ready, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """The command line that starts it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        log = self.folder / "log"
        with log.open("wb") as sink:
            self._process = subprocess.Popen(self.command(), stdout=sink, stderr=subprocess.STDOUT, cwd=self.folder)

        def ready() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                pytest.fail(f"{self.command()[0]} ended at once:\n{log.read_text(errors='replace')[-3000:]}")
            return fetch(self.url + self._ready) is not None

        try:
            wait_for(ready, f"readiness of {self.command()[0]}")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=10)
        self._process = None


class PrometheusServer(Service):
    """A Prometheus over ``folder/data`` (filled with :func:`load_blocks` first), with rules, scrapes, an Alertmanager.

    ``scrape``: job name to ``host:port``; ``interval``: of scrapes and rules alike. ``scrape_options``: more keys of every
    scrape job, like ``basic_auth``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rules: Sequence[Path] = (),
        scrape: Mapping[str, str] | None = None,
        alertmanager: str = "",
        interval: str = "1s",
        honor_labels: bool = True,
        scrape_options: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, "/-/ready")
        self._flags = tuple(flags)
        config: dict[str, Any] = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": honor_labels,
                    "static_configs": [{"targets": [address]}],
                    **(scrape_options or {}),
                }
                for job, address in (scrape or {}).items()
            ],
        }
        if alertmanager:
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def command(self) -> list[str]:
        return [
            binary("prometheus"),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
            *self._flags,
        ]

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an API answer; raises where Prometheus answers with an error."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code} for {parameters}: {error.read().decode(errors='replace')}") from None

    def query(self, expression: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """An instant query: (labels, value) of each result; a scalar has no labels. ``at``: unix seconds or now."""
        moment = {} if at is None else {"time": f"{at:.3f}"}
        data = self.get("query", query=expression, **moment)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(item["metric"], float(item["value"][1])) for item in data["result"]]

    def alerts(self) -> list[dict[str, Any]]:
        """Pending and firing alerts."""
        return list(self.get("alerts")["alerts"])


@contextmanager
def prometheus_of(folder: Path, points: Points, **options: Any) -> Iterator[PrometheusServer]:
    """A Prometheus over these points; ``options`` as :class:`PrometheusServer` has them."""
    load_blocks(openmetrics(points), folder / "data")
    with PrometheusServer(folder, **options) as server:
        yield server


class AlertmanagerServer(Service):
    """An Alertmanager with the given configuration file."""

    def __init__(self, folder: Path, config: Path) -> None:
        super().__init__(folder, "/-/ready")
        self._config = config

    def command(self) -> list[str]:
        return [
            binary("prometheus-alertmanager"),
            f"--config.file={self._config}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]

    def alerts(self) -> list[dict[str, Any]]:
        """Every alert it holds, with ``status.state`` and ``status.inhibitedBy``."""
        body = fetch(f"{self.url}/api/v2/alerts")
        return [] if body is None else list(json.loads(body))
