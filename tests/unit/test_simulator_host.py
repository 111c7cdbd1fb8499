"""What the host under a simulated engine shows, and how long its page takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from llmvitals.schema import BY_NAME, Origin, family_of, origin_of
from llmvitals.simulator import canonical
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.serve import Served
from llmvitals.simulator.setup import Faults, Front, Gateway, Host, Restart, Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload

CHAT = Stream(rate=4.0, prompt=Lengths(200), output=Lengths(100), max_tokens=128)
LABELS = {"instance": "sim", "model": "sim-8b"}


def live(stream: Stream | None = CHAT, **parts: object) -> Live:
    streams = (stream,) if stream else ()
    return Live(Setup(EngineConfig(), Workload(streams, seed=3), **parts))  # type: ignore[arg-type]


def host(server: Live, t: float, name: str, **own: str) -> float:
    found = [
        v
        for k, v in server.host_at(t, LABELS).items()
        if k.name == f"llm_host_{name}" and own.items() <= dict(k.labels).items()
    ]
    assert len(found) == 1, (name, own, found)
    return found[0]


def test_every_sample_belongs_to_a_host_family_and_carries_its_labels():
    server = live(gateway=Gateway())
    for key in server.host_at(10.0, LABELS):
        family = BY_NAME[key.name]
        assert origin_of(key.name) is Origin.HOST
        assert {k for k, _ in key.labels} == {"instance", "model", *family.labels}
        assert list(key.labels) == sorted(key.labels)


def test_cpu_of_the_api_process_is_what_its_work_costs():
    server = live(front=Front(request_seconds=0.02, output_token_seconds=1e-4))
    shown = [host(server, t, "cpu_cores", process="api") for t in range(5, 101, 5)]
    assert sum(shown) / len(shown) == pytest.approx(server.engine.counters.process_seconds / 100, rel=0.02)
    assert host(server, 100, "busiest_thread_cores", process="api") == host(server, 100, "cpu_cores", process="api")
    assert host(server, 100, "cpu_limit_cores", process="api") == 8
    assert host(server, 100, "cpu_throttled_seconds_total", process="api") == 0


@pytest.mark.parametrize(("processes", "cores"), [(1, 1.0), (2, 2.0)])
def test_a_full_api_process_has_its_threads_at_one_core(processes: int, cores: float):
    server = live(replace(CHAT, rate=12.0), front=Front(processes=processes, request_seconds=0.4))
    assert host(server, 60, "busiest_thread_cores", process="api") == pytest.approx(1.0)
    assert host(server, 60, "cpu_cores", process="api") == pytest.approx(cores)


def test_a_quota_throttles_while_there_is_work_and_not_otherwise():
    starved = Front(request_seconds=0.1, cores=0.25)
    busy, idle = live(front=starved), live(None, front=starved)
    first, last = (host(busy, t, "cpu_throttled_seconds_total", process="api") for t in (30, 60))
    assert (last - first) / 30 == pytest.approx(0.75, abs=0.01)
    assert host(busy, 60, "cpu_cores", process="api") == pytest.approx(0.25)
    assert host(busy, 60, "cpu_limit_cores", process="api") == 0.25
    assert host(idle, 60, "cpu_throttled_seconds_total", process="api") == 0


def test_a_blocked_api_process_uses_no_cpu():
    server = live(front=Front(request_seconds=0.02), faults=Faults(front_stalls=((30.0, 42.0),)))
    assert host(server, 29, "cpu_cores", process="api") > 0.05
    assert host(server, 41, "cpu_cores", process="api") < 0.02
    assert host(server, 60, "cpu_cores", process="api") > 0.05


def test_the_engine_spins_while_it_works():
    busy, idle = live(Stream(clients=20, output=Lengths(100), max_tokens=128)), live(None)
    assert host(busy, 30, "busiest_thread_cores", process="engine") > 0.9
    assert host(idle, 30, "busiest_thread_cores", process="engine") == 0


def test_leaked_descriptors_stand_in_close_wait_until_the_process_ends():
    server = live(faults=Faults(fd_leak=2.0, restarts=(Restart(60.0, 65.0),)), host=Host(max_fds=1000))
    opened = host(server, 50, "open_fds", process="api")
    waiting = host(server, 50, "sockets", state="close_wait")
    ended = len(server.world.clients.log)
    assert waiting == 2 * ended > 200
    assert opened == 44 + len(server.world.front.calls) + waiting
    assert host(server, 50, "sockets", state="established") == len(server.world.front.calls)
    assert host(server, 50, "max_fds", process="api") == 1000
    assert host(server, 66, "sockets", state="close_wait") < 0.2 * waiting


def test_without_keep_alive_ports_stand_in_time_wait_for_a_minute():
    kept, thrown = live(gateway=Gateway()), live(gateway=Gateway(keep_alive=False), faults=Faults(foreign_ports=500))
    late = [a for a in thrown.world.clients.log if a.ended > 120]
    assert not late
    waiting = host(thrown, 180, "sockets", state="time_wait")
    assert waiting == sum(1 for a in thrown.world.clients.log if 120 < a.ended <= 180)
    assert waiting == pytest.approx(4.0 * 60, rel=0.25)
    used = host(thrown, 180, "ephemeral_ports_used")
    assert used == waiting + len(thrown.world.front.calls) + 500
    assert host(thrown, 180, "ephemeral_ports") == 28_232
    assert host(kept, 180, "sockets", state="time_wait") == 0
    assert host(kept, 180, "ephemeral_ports_used") < 100


def test_restarts_are_counted_by_what_ended_the_process_which_is_gone_meanwhile():
    server = live(faults=Faults(restarts=(Restart(20.0, 30.0, "oom"), Restart(50.0, 55.0, "probe"))))
    assert host(server, 10, "restarts_total", reason="oom") == 0
    assert host(server, 25, "restarts_total", reason="oom") == 1
    assert not [k for k in server.host_at(25, LABELS) if k.label("process")]
    assert host(server, 60, "restarts_total", reason="probe") == 1
    assert host(server, 60, "restarts_total", reason="error") == 0
    assert host(server, 60, "open_fds", process="api") >= 44


def test_host_telemetry_does_not_depend_on_how_often_one_asks():
    often, once = live(), live()
    for tick in range(100):
        often.host_at(tick * 0.37, LABELS)
    assert often.host_at(40, LABELS) == once.host_at(40, LABELS)


# -- the page ---------------------------------------------------------------------------------------------------------
def test_a_page_takes_as_long_as_the_work_before_it():
    server = live(None, faults=Faults(front_stalls=((10.0, 13.0), (20.0, 40.0))), front=Front(page_seconds=0.01))
    assert server.answer_at(5.0).took == pytest.approx(0.01)
    late = server.answer_at(11.0)
    assert (late.took, late.status) == (pytest.approx(2.01), 200)
    assert late.body.startswith(b"# HELP")
    gone = server.answer_at(21.0)
    assert (gone.took, gone.status, gone.body) == (5.0, 0, b"")
    assert server.answer_at(21.0, timeout=30.0).took == pytest.approx(19.01)
    assert server.answer_at(39.0).status == 200


@pytest.mark.parametrize("faults", [Faults(dies_at=10.0), Faults(restarts=(Restart(10.0, 20.0),))])
def test_nothing_answers_while_there_is_no_process(faults: Faults):
    server = live(faults=faults)
    assert server.answer_at(9.0).status == 200
    assert server.answer_at(12.0) == replace(server.answer_at(12.0), took=0.0, status=0, body=b"")
    assert server.answer_at(25.0).status == (200 if faults.restarts else 0)


def test_canonical_text_reads_back_and_keeps_quotes():
    server = live(gateway=Gateway(name='north "1"'))
    samples = server.gateway_at(30.0, LABELS)
    families = list(text_string_to_metric_families(canonical.text(samples).decode()))
    read = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}
    assert read == {(k.name, k.labels): v for k, v in samples.items()}
    assert {f.type for f in families if f.name == "llm_gateway_ttft_seconds"} == {"histogram"}
    assert all(family_of(s.name) for f in families for s in f.samples)


def test_all_telemetry_is_served_and_a_page_is_as_late_as_it_is():
    slept: list[float] = []
    now = [30.0]
    server = live(gateway=Gateway(), faults=Faults(dies_at=50.0), front=Front(page_seconds=0.25))
    with Served(server, clock=lambda: now[0], sleep=slept.append) as served:
        assert requests.get(f"{served.url}/metrics", timeout=5).status_code == 200
        assert slept[0] >= 0.25
        assert "llm_host_open_fds" in requests.get(f"{served.url}/host/metrics", timeout=5).text
        assert "llm_gateway_requests_total" in requests.get(f"{served.url}/gateway/metrics", timeout=5).text
        now[0] = 60.0
        assert requests.get(f"{served.url}/metrics", timeout=5).status_code == 503
        assert requests.get(f"{served.url}/health", timeout=5).status_code == 503
        assert requests.get(served.gpu_url, timeout=5).status_code == 200
