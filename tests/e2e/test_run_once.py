"""``llmvitals run --once``: the demo in seconds, real servers with the exit codes of a triage, bad input in one line."""

import socket
import time
from dataclasses import replace

import pytest

from llmvitals.cli.app_child import port_for
from llmvitals.cli.embedded import in_simulated_time, paced
from llmvitals.cli.follow import verdicts
from llmvitals.cli.run import _listen
from llmvitals.errors import SettingsError
from llmvitals.settings import Settings
from llmvitals.simulator.scenarios import DEMO, scenario
from llmvitals.simulator.serve import Served
from llmvitals.simulator.workload import Lengths, Workload
from support.command import llmvitals, one_clear_line
from support.hostile import Hostile
from support.waiting import free_port

POOL, PROMPT, OUTPUT = 16_384, 150, 400  # the demo's KV tokens, and the long answers' mean lengths


def demo(blocks: int = 1024, prompt: int = PROMPT, output: int = OUTPUT, seats: int = 64):
    chosen = scenario(DEMO)
    chat, long = chosen.workload.streams
    long = replace(long, prompt=Lengths(prompt, 0.1), output=Lengths(output, 0.1))
    return replace(
        chosen,
        config=replace(chosen.config, blocks=blocks, max_num_seqs=seats),
        workload=Workload((chat, long)),
    )


def verdict(chosen):
    (found,) = verdicts(in_simulated_time(paced(Settings()), chosen))
    return found


def test_the_demo_names_preemption_with_the_seats_it_computed():
    start = time.monotonic()
    ran = llmvitals("run", "--once")
    assert time.monotonic() - start < 20
    assert (ran.code, ran.err) == (0, "")
    assert "simulated vLLM, not your server" in ran.out
    assert "preemption-thrash" in ran.out
    # 16,384 tokens hold 16,384 / (150 + 400) = 29.8 requests at their longest.
    assert "Set --max-num-seqs to 30." in ran.out


def test_the_seats_follow_from_the_pool_and_the_lengths():
    # The value is read off histogram buckets, so it is as exact as they are; 15 % is half of one.
    for blocks, prompt in ((1024, 150), (768, 150), (1024, 300)):
        found = verdict(demo(blocks=blocks, prompt=prompt))
        assert found.leading.cause == "preemption-thrash"
        assert found.leading.action.value == pytest.approx(blocks * 16 / (prompt + OUTPUT), rel=0.15)


def test_with_a_big_pool_or_short_answers_nothing_thrashes():
    assert verdict(demo(blocks=4096)).outcome == "healthy"
    assert verdict(demo(output=100)).outcome == "healthy"


def test_the_seats_it_names_end_the_thrash():
    named = int(verdict(demo()).leading.action.value)
    counted = {}
    for seats in (named, demo().config.max_num_seqs):
        live = demo(seats=seats).live(origin=0.0)
        live.advance(120.0)
        counted[seats] = live.engine.counters
    assert [counters.preemptions > 0 for counters in counted.values()] == [False, True]
    assert sum(counted[named].finished.values()) > 100


@pytest.fixture
def quick(tmp_path):
    """Settings under which nine seconds are enough, so that no test waits for thirty."""
    file = tmp_path / "settings.yaml"
    file.write_text("thresholds: {min_seconds: 6, min_pages: 3}\nexporter: {window_seconds: 12, timeout_seconds: 2}\n")
    return file


def test_real_servers_are_watched_and_answered_with_the_exit_code_of_the_worst(quick):
    origin = time.time()

    def hurried() -> float:
        return origin + 30 + 2 * (time.time() - origin)  # from half a minute into the demo, twice as fast

    bad, good = scenario(DEMO).live(origin=origin), scenario("healthy").live(origin=origin)
    with Served(bad, clock=hurried) as ill, Served(good, clock=hurried) as well:
        ran = llmvitals("run", "--once", "--engine", f"{ill.url},{well.url}", "--settings", quick)
    assert ran.code == 1, ran
    assert "simulated" not in ran.out
    assert "preemption-thrash" in ran.out
    assert ran.out.index("CAUSE") < ran.out.index("HEALTHY")


def test_bad_input_is_one_clear_line():
    assert f"127.0.0.1:{(port := free_port())}" in one_clear_line(llmvitals("run", "--engine", f"127.0.0.1:{port}"))
    assert "names no server" in one_clear_line(llmvitals("run", "--engine", " , "))
    assert "is not a URL" in one_clear_line(llmvitals("run", "--once", "--engine", "http://"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port}: is in use" in one_clear_line(llmvitals("run", "--no-app", "--port", port))
        assert f"--app-port {port}: is in use" in one_clear_line(llmvitals("run", "--app-port", port))


def test_the_page_limits_of_the_settings_hold_from_the_first_look(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("exporter: {max_page_bytes: 100}\n")
    with Hostile() as hostile:
        line = one_clear_line(llmvitals("run", "--once", "--engine", hostile.url("/ok"), "--settings", file))
    assert "the page is larger than" in line


def test_the_usual_port_gives_way_and_the_one_asked_for_does_not():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port_for(None, port, "--port") not in {port, 0}
        assert _listen(f"127.0.0.1:{port}", None) != f"127.0.0.1:{port}"
        with pytest.raises(SettingsError, match="is in use"):
            port_for(port, 9464, "--port")
    assert _listen(f"0.0.0.0:{port}", None) == f"0.0.0.0:{port}"
    assert _listen("nonsense", None) == "nonsense"
