"""``llmvitals picture`` against a real Prometheus: what it writes, says and refuses."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from llmvitals.cli.picture import LESS, answered, found_board, found_panels
from llmvitals.dashboards.pictures.ask import spanned
from llmvitals.dashboards.pictures.results import Choice, Scene
from llmvitals.errors import PageError, SettingsError, UnreachableError
from llmvitals.series import Series
from llmvitals.settings import Settings
from llmvitals.sources.promql_api import Endpoint
from support.command import llmvitals, one_clear_line
from support.prometheus import Points, PrometheusServer, load_blocks, openmetrics

pytestmark = pytest.mark.prometheus

START, PAGES, EVERY = 1_770_000_000, 41, 15
END = START + EVERY * (PAGES - 1)
TITLE = "What binds: KV cache next to GPU compute"
PANEL = ("--board", "service", "--panel", TITLE)
SPAN = ("--from", START, "--to", END)


def made(name: str, value, **labels: str) -> Points:
    samples = [((START + EVERY * page) * 1000, float(value(page))) for page in range(PAGES)]
    return {Series(name, tuple(sorted(labels.items()))): samples}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    points: Points = {}
    for instance, high in (("vllm-0", 0.98), ("vllm-1", 0.4)):
        scope = {"instance": instance, "model": "tiny"}
        points |= made("llm_kv_usage_ratio", lambda page, high=high: high if page > 10 else 0.1, **scope)
        points |= made("llm_requests_running", lambda page: page % 5, **scope)
        points |= made("llm_target_up", lambda _: 1, instance=instance)
    load_blocks(openmetrics(points), folder / "data")
    with PrometheusServer(folder) as server:
        yield server.url


def test_what_is_drawn_is_what_prometheus_holds(url):
    panel = found_panels(found_board("service"), (TITLE,))
    scene = Scene(spanned(START, END, EVERY), Choice(instance=("vllm-0",)))
    with Endpoint(url) as endpoint:
        (one,) = answered(endpoint, panel, scene, Settings())
    (kv,) = one.found[0]
    assert (kv.label("instance"), kv.label("model")) == ("vllm-0", "tiny")
    assert [value for _, value in kv.points] == [0.98 if page > 10 else 0.1 for page in range(PAGES)]
    assert [t for t, _ in kv.points] == [START + EVERY * page for page in range(PAGES)]
    assert one.found[2] == (), "no GPU was loaded, and none is made up"


def test_a_panel_is_written_as_svg_and_twice_the_same(url, tmp_path):
    words = ("picture", "--prometheus", url, *PANEL, *SPAN, "--instance", "vllm-0")
    first, second = (llmvitals(*words, "-o", tmp_path / name) for name in ("a", "b"))
    assert (first.code, second.code) == (0, 0), first.err
    file = Path(first.out.strip())
    assert file == tmp_path / "a" / "service-what-binds-kv-cache-next-to-gpu-compute.svg"
    assert file.read_bytes() == Path(second.out.strip()).read_bytes()
    assert f"<title>{TITLE}</title>" in file.read_text(encoding="utf-8")


def test_a_board_is_written_as_png_and_says_what_is_empty(url, tmp_path):
    ran = llmvitals("picture", "--prometheus", url, "--board", "queue", *SPAN, "-o", tmp_path)
    assert ran.code == 0, ran.err
    data = (tmp_path / "queue.png").read_bytes()
    assert Image.open(io.BytesIO(data)).size[0] == 2 * 1280
    assert re.search(r"^'Share of time spent queued' is empty: no traffic", ran.err, re.M)
    assert "'Running and waiting' is empty" not in ran.err
    phone = llmvitals(
        "picture", "--prometheus", url, "--board", "queue", *SPAN, "-o", tmp_path, "--phone", "--theme", "dark",
        "--format", "svg",
    )  # fmt: skip
    assert phone.code == 0, phone.err
    assert 'width="390"' in (tmp_path / "queue.svg").read_text(encoding="utf-8")[:2000]


def test_without_any_data_nothing_is_written_and_it_is_said(url, tmp_path):
    folder = tmp_path / "none"
    early = ("--from", START - 9000, "--to", START - 7200)
    ran = llmvitals("picture", "--prometheus", url, *PANEL, *early, "-o", folder)
    assert ran.code == 3
    assert "holds nothing for 1 panels from" in one_clear_line(ran)
    assert not folder.exists()
    nobody = llmvitals("picture", "--prometheus", url, *PANEL, *SPAN, "--instance", "nobody", "-o", folder)
    assert nobody.code == 3


def test_a_query_that_the_server_refuses_and_a_server_that_is_none_are_named(url):
    with Endpoint(url) as endpoint:
        assert [one.points for one in endpoint.now("1 + 1", END)] == [((float(END), "2"),)]
        with pytest.raises(Exception, match=r"refuses the query: .*parse error"):
            endpoint.over("sum by (", START, END, 15)
    with Endpoint(url, less=LESS) as endpoint:
        with pytest.raises(SettingsError) as caught:
            endpoint.over("sum by (", START, END, 15)
        assert "--selector" not in str(caught.value), "the command has no such option"
        with pytest.raises(PageError, match=r"exceeded maximum resolution.*Ask for less with a longer --step"):
            endpoint.over("up", START, END, 0.01)
    with Endpoint("http://127.0.0.1:1") as endpoint, pytest.raises(UnreachableError, match="cannot be reached"):
        endpoint.now("up", END)
