"""Engines and gateways as one service: sums are the true ones, whoever repeats whose numbers, and who is away is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from llmvitals.errors import SettingsError
from llmvitals.exporters.cycle import Engine
from llmvitals.gaps import GapKind
from llmvitals.series import Exemplar, Series, Snapshot, Window, series
from llmvitals.settings import Exporter, Service, Settings, Target, decode
from llmvitals.signals.catalogue import compute
from llmvitals.signals.context import Context
from llmvitals.signals.reading import Reading
from llmvitals.signals.service import part, servers, silent
from llmvitals.signals.window import scopes
from llmvitals.sources import Observed
from llmvitals.sources.assemble import Feed, joined, observed
from llmvitals.sources.capture import Recorded, read_capture
from llmvitals.sources.record import Recorder
from llmvitals.sources.roles import NO_USERS, with_role
from llmvitals.sources.views import Placed, is_gateway, views
from llmvitals.telemetry.gateways.join import choose, join_gateway
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.printed import report
from llmvitals.triage.report import document, scope_of, services_first, worst
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose
from support.made import START, Server, healthy, run

STEP = 5.0
PAGES = 14

# -- made pages -------------------------------------------------------------------------------------------------------


def vllm_dp(i: int) -> bytes:
    """Two data-parallel ranks (the label engine); each page 50 prompt and 10 tokens more on rank 0, 5 more on rank 1."""
    lines = []
    for rank, running, waiting, made in ((0, 7, 3, 10 * i), (1, 4, 1, 5 * i)):
        at = f'{{engine="{rank}",model_name="m"}}'
        lines += [
            f"vllm:num_requests_running{at} {running}",
            f"vllm:num_requests_waiting{at} {waiting}",
            f"vllm:kv_cache_usage_perc{at} 0.5",
            f"vllm:generation_tokens_total{at} {1000 + made}",
            f"vllm:prompt_tokens_total{at} {5000 + 5 * made}",
        ]
    return ("\n".join(lines) + "\n").encode()


def sglang_ranks(i: int) -> bytes:
    """Two data-parallel ranks of two tensor-parallel ones each, which repeat each other's numbers; 20 tokens more a page."""
    lines = []
    for dp, running, waiting in ((0, 6, 2), (1, 5, 0)):
        for tp in (0, 1):
            at = f'{{dp_rank="{dp}",engine_type="unified",model_name="m",pp_rank="0",tp_rank="{tp}"}}'
            lines += [
                f"sglang:num_running_reqs{at} {running}",
                f"sglang:num_queue_reqs{at} {waiting}",
                f"sglang:token_usage{at} 0.4",
            ]
    lines += [
        'sglang:prompt_tokens_total{model_name="m"} 9000',
        f'sglang:generation_tokens_total{{model_name="m"}} {2000 + 20 * i}',
        'sglang:num_requests_total{model_name="m"} 50',
    ]
    return ("\n".join(lines) + "\n").encode()


def router(i: int) -> bytes:
    """A router that repeats its engines' gauges under vLLM's names with a label of its own, and counts calls."""
    lines = [
        f'vllm:num_requests_running{{server="http://{name}:8000"}} {running}' for name, running in (("a", 7), ("b", 4))
    ]
    lines += [
        'vllm:num_requests_waiting{server="http://a:8000"} 3.0',
        'vllm:num_requests_waiting{server="http://b:8000"} 1.0',
        'vllm:current_qps{server="http://a:8000"} 2.0',
        'vllm:healthy_pods_total{server="http://a:8000"} 1.0',
        f'vllm:num_incoming_requests_total{{model="m"}} {30 * i}',
        f'vllm:input_tokens_total{{model="m",server="http://a:8000"}} {4000 + 500 * i}',
        f'vllm:output_tokens_total{{model="m",server="http://a:8000"}} {4000 + 500 * i}',
        "router_cpu_usage_percent 3.0",
    ]
    return ("\n".join(lines) + "\n").encode()


def first_tokens(kind: str, edges: Sequence[float], seconds: float) -> Callable[[int], bytes]:
    """Pages of an engine whose first tokens all came after so many seconds: 20 more a page, counted at its own edges."""

    def page(i: int) -> bytes:
        at, many = 'model_name="m"', 20 * i
        name = f"{kind}:time_to_first_token_seconds"
        lines = [f'{name}_bucket{{{at},le="{edge}"}} {many if seconds <= edge else 0}' for edge in edges]
        lines += [f'{name}_bucket{{{at},le="+Inf"}} {many}', f"{name}_sum{{{at}}} {many * seconds}"]
        lines += [f"{name}_count{{{at}}} {many}", f"{kind}:num_requests_running{{{at}}} 2"]
        return ("\n".join(lines) + "\n").encode()

    return page


def feed(name: str, body: Callable[[int], bytes], *, late: float = 0.0, **more: str) -> Feed:
    pages = [RawPage(1000.0 + STEP * i + late, 0.01, 200, body(i)) for i in range(PAGES)]
    return Feed(name, "auto", pages, **more)  # type: ignore[arg-type]


def of(seen: Sequence[Observed], name: str) -> Observed:
    return next(one for one in seen if one.name == name)


def total(page: Snapshot, family: str) -> float:
    return sum(v for k, v in page.samples.items() if k.name == family)


def only(window: Observed) -> Window:
    (found,) = scopes(window.snapshots).values()
    return found


CHAT = Service(name="chat", engines=("a", "b"), gateways=("router",))


# -- edges of their own ----------------------------------------------------------------------------------------------
def test_engines_that_count_at_different_edges_add_up_only_at_those_they_share():
    """Both keep the promise of 2 s; counted at every edge, nearly half of all would seem to have come after 10 s."""
    fast, slow = first_tokens("vllm", (0.1, 1.0, 2.5, 10.0), 0.09), first_tokens("sglang", (0.2, 1.0, 2.0, 10.0), 1.5)
    service = Service(name="chat", engines=("a", "b"))
    window = only(of(observed([feed("a", fast), feed("b", slow)], services=[service]), "chat"))
    assert {t.label("le") for t in window.tracks("llm_request_ttft_seconds_bucket")} == {"1", "10", "+Inf"}
    readings = compute(window, Settings())
    assert readings["ttft_harm_p"].value == 1.0
    assert readings["ttft_breach_ratio"].value == 0.0
    assert 1.0 <= (readings["ttft_p95_seconds"].value or 0.0) <= 10.0


def test_engines_that_share_no_edge_have_means_and_no_quantiles():
    fast, slow = first_tokens("vllm", (0.1, 2.5), 0.09), first_tokens("sglang", (0.2, 2.0), 1.5)
    service = Service(name="chat", engines=("a", "b"))
    window = only(of(observed([feed("a", fast), feed("b", slow)], services=[service]), "chat"))
    assert not window.tracks("llm_request_ttft_seconds_bucket")
    found = compute(window, Settings())["ttft_harm_p"]
    assert found.value is None
    assert found.gap is not None
    assert found.gap.kind is GapKind.UNSUPPORTED
    assert "different edges" in found.gap.why


# -- nothing counts twice ---------------------------------------------------------------------------------------------
def test_a_services_sums_are_those_of_its_data_parallel_ranks_and_replicas_whatever_a_router_repeats():
    seen = observed([feed("a", vllm_dp), feed("b", vllm_dp, late=0.4), feed("router", router)], services=[CHAT])
    assert [one.name for one in seen] == ["chat", "a", "b"]  # the service first; the router is told with it
    for page in of(seen, "chat").snapshots:
        assert total(page, "llm_requests_running") == 2 * (7 + 4)
        assert total(page, "llm_requests_waiting") == 2 * (3 + 1)
    window = only(of(seen, "chat"))
    assert {t.label("rank") for t in window.tracks("llm_requests_running")} == {"a/0", "a/1", "b/0", "b/1"}
    assert {k.label("instance") for page in of(seen, "chat").snapshots for k in page.samples} == {"chat"}
    read = compute(window, Settings())
    # two servers, 15 generated and 75 prompt tokens in 5 s each
    assert read["generation_tokens_rate"].value == pytest.approx(2 * 15 / STEP)
    assert read["prompt_tokens_rate"].value == pytest.approx(2 * 75 / STEP)
    assert window.tracks("llm_gateway_calls_total")[0].label("gateway") == "router"


def test_tensor_parallel_ranks_repeat_and_data_parallel_ranks_add_up_within_a_service_too():
    service = Service(name="chat", engines=("a", "b"))
    seen = observed([feed("a", sglang_ranks), feed("b", sglang_ranks)], services=[service])
    for page in of(seen, "chat").snapshots:
        assert total(page, "llm_requests_running") == 2 * (6 + 5)
        assert total(page, "llm_requests_waiting") == 2 * (2 + 0)
    read = compute(only(of(seen, "chat")), Settings())
    assert read["generation_tokens_rate"].value == pytest.approx(2 * 20 / STEP)


def test_engines_of_different_kinds_are_one_service_of_what_all_of_them_show():
    service = Service(name="chat", engines=("a", "b"))
    seen = observed([feed("a", vllm_dp), feed("b", sglang_ranks)], services=[service])
    page = of(seen, "chat").snapshots[-1]
    assert total(page, "llm_requests_running") == (7 + 4) + (6 + 5)
    assert {k.label("engine") for k in page.samples if k.name == "llm_requests_running"} == {"vllm", "sglang"}
    read = compute(only(of(seen, "chat")), Settings())
    assert read["generation_tokens_rate"].value == pytest.approx((15 + 20) / STEP)


# -- a family that one engine cannot say ------------------------------------------------------------------------------
def named(window: Window, name: str) -> tuple[Snapshot, ...]:
    """A made server's pages under another name."""

    def moved(key: Series) -> Series:
        return Series(key.name, tuple((k, name if k == "instance" else v) for k, v in key.labels))

    return tuple(Snapshot(s.t, {moved(k): v for k, v in s.samples.items()}, s.detail) for s in window.snapshots)


def server(each: Callable[[Server, int], None] = healthy, *, pages: int = PAGES, **how: float) -> Window:
    return run(pages, each, Server(**how))  # type: ignore[arg-type]


def service_of(engines: dict[str, Window], *gateways: Observed, model: str = "") -> Observed:
    seen = [Observed(name, "vllm", named(window, name)) for name, window in engines.items()]
    service = Service(name="chat", engines=tuple(engines), gateways=tuple(g.name for g in gateways), model=model)
    return of(joined([*seen, *gateways], [service]), "chat")


def read(seen: Observed, signal: str) -> Reading:
    return compute(only(seen), Settings())[signal]


def judged(seen: Observed, settings: Settings | None = None):
    return diagnose(only(seen), settings or Settings(), scope=scope_of(seen.name, "m", seen.engines))


def cannot(window: Window, family: str, kind: GapKind, reason: str) -> Window:
    """A server that never showed a family and says why."""
    gap = series("llm_family_gap", instance="made", family=family, gap=kind.value, reason=reason)
    return Window.of(
        Snapshot(s.t, {k: v for k, v in s.samples.items() if not k.name.startswith(family)} | {gap: 1.0}, s.detail)
        for s in window.snapshots
    )


def test_what_one_engine_cannot_say_the_service_cannot_say_and_names_it():
    lacking = cannot(server(), "llm_request_ttft_seconds", GapKind.UNSUPPORTED, "no release shows it")
    seen = service_of({"a": server(), "b": lacking})
    assert not only(seen).tracks("llm_request_ttft_seconds_count")  # half of the users would pass as all of them
    gap = read(seen, "ttft_p95_seconds").gap
    assert gap is not None
    assert (gap.kind, gap.why) == (GapKind.UNSUPPORTED, "b: no release shows it")
    assert read(seen, "completion_rate").value == pytest.approx(20.0)  # both show it: ten requests a second each


def test_an_engine_without_a_gpu_page_is_named_and_said_once_to_have_none():
    def seen(gpu: dict[Series, float]) -> Window:
        pages = server().snapshots
        plain = [{k: v for k, v in page.samples.items() if k.name != "llm_family_gap"} for page in pages]
        return Window.of(replace(page, samples=own | gpu) for page, own in zip(pages, plain, strict=True))

    gpu = {series("llm_gpu_sm_active_ratio", instance="made", gpu="0"): 0.5}
    gap = read(service_of({"chat-0": seen(gpu), "chat-1": seen({})}), "gpu_sm_active_ratio").gap
    assert gap is not None
    assert gap.why == "no GPU is joined: chat-1 has none"


def test_hosts_belong_to_engines_and_the_service_says_where_to_look():
    own = {series("llm_host_ephemeral_ports", instance="made"): 28_000.0}
    pages = Window.of(replace(page, samples=page.samples | own) for page in server().snapshots)
    gap = read(service_of({"chat-0": pages, "chat-1": pages}), "api_cpu_full_ratio").gap
    assert gap is not None
    assert gap.why.endswith("each engine has its own: see the engines by themselves")


def test_what_has_not_happened_at_one_engine_yet_is_nothing_there():
    idle = cannot(server(lambda s, i: None), "llm_request_ttft_seconds", GapKind.NO_TRAFFIC, "not before the first")
    seen = service_of({"a": server(), "b": idle})
    assert read(seen, "completion_rate").value == pytest.approx(10.0)
    assert read(seen, "first_tokens").value == pytest.approx(50 * PAGES)
    assert judged(seen).outcome is Outcome.HEALTHY


def test_a_service_of_one_engine_reads_as_that_engine():
    alone = server()
    seen = service_of({"a": alone})
    one = compute(alone, Settings())
    for signal, reading in compute(only(seen), Settings()).items():
        assert (reading.value, reading.gap) == (one[signal].value, one[signal].gap), signal


def test_how_many_left_is_unknown_and_not_lost_where_engines_count_it_each_in_its_own_way():
    by_itself = cannot(server(), "llm_request_n_param", GapKind.UNSUPPORTED, "it counts those given up itself")
    other = cannot(server(), "llm_requests_aborted_total", GapKind.UNSUPPORTED, "it follows from HTTP answers")
    gap = read(service_of({"a": other, "b": by_itself}), "aborted_requests").gap
    assert gap is not None
    assert (gap.kind, gap.series) == (GapKind.UNSUPPORTED, "llm_request_n_param")  # HTTP answers are on the page


# -- replicas that are away, restart, start or hang ---------------------------------------------------------------------
def dies(at: int, server_: Server) -> Window:
    server_.page()
    for i in range(1, PAGES + 1):
        if i < at:
            healthy(server_, i)
            server_.page()
        else:
            server_.fail()
    return server_.window()


def test_a_dead_replica_is_named_left_out_of_the_sums_and_does_not_make_the_service_dead():
    seen = service_of({"a": server(), "b": server(), "c": dies(8, Server())})
    window = only(seen)
    assert servers(window) == ("a", "b", "c")
    assert silent(window) == ("c",)
    assert total(seen.snapshots[0], "llm_requests_running") == 0 + 0  # c's are never among them
    assert {t.label("rank") for t in window.tracks("llm_requests_running")} == {"a/0", "b/0"}
    assert read(seen, "dead_tail_pages").value == 0
    assert read(seen, "completion_rate").value == pytest.approx(20.0)
    verdict = judged(seen)
    assert verdict.outcome is Outcome.HEALTHY
    assert verdict.sentence.endswith("1 of 3 engines does not answer: c.")


def test_a_replica_that_never_answered_is_named_too():
    def never(s: Server) -> Window:
        for _ in range(PAGES + 1):
            s.fail()
        return s.window()

    assert judged(service_of({"a": server(), "b": never(Server())})).sentence.endswith("engines does not answer: b.")


def test_a_service_of_which_nothing_answers_any_more_is_not_serving():
    seen = service_of({"a": dies(8, Server()), "b": dies(8, Server())})
    assert read(seen, "dead_tail_pages").value == PAGES - 7
    verdict = judged(seen)
    assert verdict.leading is not None
    assert verdict.leading.cause == "not-serving"
    assert "2 of 2 engines do not answer: a, b." in verdict.sentence


def test_a_scrape_that_one_replica_misses_moves_no_sum():
    def misses(s: Server) -> Window:
        s.page()
        for i in range(1, PAGES + 1):
            healthy(s, i)
            s.page() if i not in (5, 6) else s.fail()
        return s.window()

    seen = service_of({"a": server(), "b": misses(Server())})
    done = [total(page, "llm_requests_finished_total") for page in seen.snapshots]
    assert done == sorted(done)  # a counter that fell would read as a restart
    assert read(seen, "restarts").value == 0
    assert read(seen, "requests_running").value == 40
    assert read(seen, "failed_scrape_ratio").value == 0


def test_a_gauge_of_a_server_that_has_been_away_for_long_says_nothing_any_more():
    def away(s: Server) -> Window:
        s.page()
        for i in range(1, PAGES + 1):
            healthy(s, i)
            s.page() if not 4 <= i <= 9 else s.fail()
        return s.window()

    seen = service_of({"a": server(), "b": away(Server())})
    running = [total(page, "llm_requests_running") for page in seen.snapshots]
    assert running[3:11] == [40, 40, 40, 20, 20, 20, 20, 40]  # 10 s old it still stands, 15 s old it does not


def test_a_restart_is_its_own_servers_and_so_is_what_was_lost():
    def restarts(s: Server, i: int) -> None:
        if i == 7:
            s.restart()
        healthy(s, i)
        s.gauges(running=30, kv=0.2)

    seen = service_of({"a": server(), "b": server(restarts), "c": server()})
    window = only(seen)
    assert [name for _, name in Context(window, Settings()).restarted] == ["b"]
    assert read(seen, "restarts").value == 1
    assert read(seen, "lost_by_restarts").value == 30  # a and c, of 20 each, lost nothing
    assert read(seen, "processes_behind").value == 1


def test_one_young_replica_does_not_make_a_service_young():
    seen = service_of({"a": server(age=3600.0), "b": server(age=3600.0), "c": server(age=30.0)})
    assert read(seen, "uptime_seconds").value == pytest.approx(3600.0)
    seen = service_of({"a": server(age=30.0), "b": server(age=30.0), "c": server(age=3600.0)})
    assert read(seen, "uptime_seconds").value == pytest.approx(30.0)


def test_a_replica_that_started_inside_the_window_joins_it_and_an_older_one_lets_it_begin_later():
    def late(s: Server, *, born: bool) -> Window:
        for _ in range(5):
            s.fail()
        if born:
            s.set("llm_process_start_time_seconds", s.t)
        for i in range(PAGES - 4):
            healthy(s, i)
            s.page()
        return s.window()

    started = service_of({"a": server(), "b": late(Server(), born=True)})
    assert len([p for p in started.snapshots if total(p, "llm_requests_running")]) == PAGES
    reached = service_of({"a": server(), "b": late(Server(), born=False)})
    assert reached.snapshots[0].t == START + 5 * STEP  # what it had counted before is not the window's


def test_the_slowest_page_answers_of_a_service_are_one_servers():
    def stalls(s: Server) -> Window:
        s.page()
        for i in range(1, PAGES + 1):
            healthy(s, i)
            s.page(took=2.5)
        return s.window()

    seen = service_of({"a": server(), "b": server(), "c": stalls(Server())})
    assert read(seen, "page_answer_seconds").value == 2.5  # a median over all would hide it
    assert read(seen, "stalled_front_ratio").value == pytest.approx(0.5)


def test_a_hung_replica_shows_in_its_own_part_of_the_window():
    def hangs(s: Server, i: int) -> None:
        if i < 4:
            healthy(s, i)

    seen = service_of({"a": server(), "b": server(hangs)})
    assert read(seen, "stalled_seconds").value == 0
    own = compute(part(only(seen), "b"), Settings())
    assert own["stalled_seconds"].value == pytest.approx((PAGES - 3) * STEP)


def test_the_cpu_of_api_processes_is_not_added_up():
    assert read(service_of({"a": server(), "b": server()}), "api_cpu_cores").value == pytest.approx(0.05)


# -- pools and seats --------------------------------------------------------------------------------------------------
def test_pools_add_up_and_a_setting_of_each_engine_is_its_part():
    def crowded(s: Server, i: int) -> None:
        s.serve(10, ttft=6.0, prompt=3000, output=200, queue=5.6, prefill=0.4, max_tokens=500)
        s.gauges(running=5 - i % 2, waiting=5, kv=0.97)

    alone = server(crowded)
    one = diagnose(alone, Settings(), scope={"instance": "made", "model": "m"})
    both = judged(service_of({"a": alone, "b": server(crowded)}))
    assert read(service_of({"a": alone, "b": alone}), "kv_capacity_tokens").value == 2 * 16_000
    assert one.leading is not None
    assert both.leading is not None
    assert one.leading.cause == both.leading.cause == "kv-cache-saturation"
    assert one.leading.action.setting == "--max-num-seqs"
    assert both.leading.action.value == pytest.approx(one.leading.action.value, abs=1)
    assert "each of the 2 engines" in both.leading.action.text


def test_of_several_models_only_the_engines_that_serve_one_share_its_settings():
    def crowded(s: Server, i: int) -> None:
        s.serve(10, ttft=6.0, prompt=3000, output=200, queue=5.6, prefill=0.4, max_tokens=500)
        s.gauges(running=5 - i % 2, waiting=5, kv=0.97)

    def other(window: Window) -> Window:
        return Window.of(
            Snapshot(page.t, {Series(k.name, tuple((n, "n" if n == "model" else v) for n, v in k.labels)): v
                              for k, v in page.samples.items()})
            for page in window.snapshots
        )  # fmt: skip

    parts = scopes(service_of({"a": server(), "b": other(server(crowded))}).snapshots)
    found = diagnose(parts["chat", "n"], Settings(), scope={"instance": "chat", "model": "n"})
    alone = diagnose(server(crowded), Settings(), scope={"instance": "made", "model": "m"})
    assert found.leading is not None
    assert alone.leading is not None
    assert found.leading.action == alone.leading.action


def test_the_fullest_pool_speaks_for_the_service():
    def fuller(s: Server, i: int) -> None:
        healthy(s, i)
        s.gauges(running=20, kv=0.9)

    assert read(service_of({"a": server(), "b": server(fuller)}), "kv_usage_high_ratio").value == pytest.approx(0.9)


# -- roles --------------------------------------------------------------------------------------------------------------
def one_token(s: Server, i: int) -> None:
    """A prefill worker: each request ends with its first token, after 3 s that no user waited for."""
    s.first(50, ttft=3.0)
    s.finish(50, prompt=1000, output=1, prefill=2.9, tpot=0.0)
    s.gauges(running=8, waiting=2, kv=0.6)


def decoding(s: Server, i: int) -> None:
    s.serve(50, prompt=1000)
    s.gauges(running=20, waiting=1, kv=0.3)


def in_role(window: Window, role: str) -> Window:
    return Window.of(with_role(s, role) for s in window.snapshots)


def test_a_prefill_workers_one_token_requests_are_not_judged_as_users():
    plain = compute(server(one_token), Settings())
    assert plain["ttft_breach_ratio"].value == 1.0  # read as an engine that users call, all were late
    read_ = compute(in_role(server(one_token), "prefill"), Settings())
    assert not read_["ttft_breach_ratio"].value  # no first token came late, for none is a user's
    for signal in ("ttft_p95_seconds", "tpot_harm_p", "e2e_p95_seconds", "itl_p99_seconds", "completion_rate"):
        gap = read_[signal].gap
        assert gap is not None
        assert (gap.kind, gap.why) == (GapKind.UNSUPPORTED, NO_USERS), signal
    assert read_["requests_waiting"].value == 2
    assert read_["kv_usage_ratio"].value == pytest.approx(0.6)
    assert read_["prompt_tokens_rate"].value is not None


def role_sample(role: str) -> Series:
    return series("llm_engine_role", instance="made", engine="vllm", rank="0", role=role)


@pytest.mark.parametrize(
    ("page", "configured", "users"),
    [
        ("prefill", "", False),
        ("prefill", "both", True),
        ("decode", "prefill", False),
        ("both", "", True),
        ("", "", True),
    ],
)
def test_a_configured_role_beats_what_the_page_says(page, configured, users):
    shown = server(one_token).snapshots[-1]
    samples = {**shown.samples, **({role_sample(page): 1.0} if page else {})}
    read_ = with_role(Snapshot(shown.t, samples), configured)
    assert any(k.name == "llm_request_ttft_seconds_count" for k in read_.samples) is users
    told = {k.label("role") for k in read_.samples if k.name == "llm_engine_role"}
    assert told == ({configured or page} if configured or page else set())


def test_every_prompt_of_a_decode_worker_was_found_as_its_kv_was_sent():
    plain = compute(server(decoding), Settings())
    assert plain["prefix_hit_ratio"].value == 0.0
    read_ = compute(in_role(server(decoding), "decode"), Settings())
    assert read_["prefix_hit_ratio"].value == pytest.approx(1.0)
    assert read_["prompt_share_ratio"].value == 0.0  # it prefills nothing, so no prompt can bind it
    assert read_["ttft_breach_ratio"].value == 0.0  # but what it hands out is what users get


def test_a_page_that_could_not_be_read_has_no_role():
    down = Snapshot(1.0, {series("llm_target_up", instance="a"): 0.0}, "refused")
    assert with_role(down, "prefill") is down


def test_of_prefill_and_decode_workers_each_family_is_taken_where_it_is_true():
    prefills, decodes = in_role(server(one_token), "prefill"), in_role(server(decoding), "decode")
    seen = service_of({"p": prefills, "d": decodes})
    found = compute(only(seen), Settings())
    assert found["completion_rate"].value == pytest.approx(10.0)  # 50 in 5 s, once
    assert found["ttft_breach_ratio"].value == 0.0
    assert found["prompt_tokens_rate"].value == pytest.approx(10_000)  # 50 of 1,000 in 5 s: computed once
    assert found["generation_tokens_rate"].value == pytest.approx(
        1000
    )  # a prefill worker's one token each is none more
    assert found["requests_running"].value == 28
    assert found["requests_waiting"].value == 3
    assert found["kv_usage_ratio"].value == pytest.approx(0.6)
    assert found["prefix_hit_ratio"].value == 0.0  # the prefill worker's lookups, not the decode worker's received KV
    assert (
        found["seats_full"].value == compute(decodes, Settings())["seats_full"].value
    )  # contexts end in its pool only
    assert judged(seen).outcome is Outcome.HEALTHY


# -- gateways -----------------------------------------------------------------------------------------------------------
def gateway_page(t: float, calls: float, *, model: str = "m", kind: str = "litellm", **more: float) -> Snapshot:
    own = {"instance": "any", "gateway": kind}
    samples = {
        series("llm_target_up", instance="any"): 1.0,
        series("llm_target_info", instance="any", engine=kind, version="1"): 1.0,
        series("llm_gateway_calls_total", model=model, **own): calls,
        series("llm_gateway_requests_total", model=model, status="200", **own): calls,
        series("llm_gateway_retries_total", **own): 0.0,
        series("llm_gateway_breaker_open", upstream="u", **own): 0.0,
        series(
            "llm_family_gap",
            instance="any",
            engine=kind,
            family="llm_gateway_disconnects_total",
            gap="unsupported",
            reason="never",
        ): 1.0,
        series(
            "llm_family_gap",
            instance="any",
            engine=kind,
            family="llm_preemptions_total",
            gap="unsupported",
            reason="no engine",
        ): 1.0,
    }
    return Snapshot(t, samples | {series(f"llm_gateway_{k}", **own): v for k, v in more.items()})


def gateway(name: str, *, per_page: float = 100, models: Sequence[str] = ("m",), **how: object) -> Observed:
    pages = []
    for i in range(PAGES + 1):
        t, calls = START + STEP * i + 0.3, per_page * i
        shown = [gateway_page(t, calls * (n + 1), model=model, **how) for n, model in enumerate(models)]  # type: ignore[arg-type]
        pages.append(Snapshot(t, {k: v for page in shown for k, v in page.samples.items()}))
    return Observed(name, "auto", tuple(pages))


def test_a_gateway_is_recognised_by_its_page_and_by_its_kind():
    assert is_gateway("auto", gateway("g").snapshots)
    assert is_gateway("litellm", ())
    assert not is_gateway("auto", server().snapshots)
    bare = {series("llm_gateway_calls_total", instance="g"): 1.0, series("llm_target_up", instance="g"): 1.0}
    assert is_gateway("auto", [Snapshot(1.0, bare)])  # a page in our own words


def test_one_engine_and_one_gateway_belong_together_without_a_word():
    (seen,) = joined([Observed("a", "auto", named(server(), "a")), gateway("litellm-0")], ())
    (track,) = only(seen).tracks("llm_gateway_calls_total")
    assert dict(track.labels) == {"instance": "a", "gateway": "litellm-0", "model": "m"}
    assert read(seen, "first_calls_per_minute").value == pytest.approx(1200)
    # how the gateway was reached is not the engine's, nor is what it says of engines
    assert {k.label("engine") for k in seen.snapshots[-1].samples if k.name == "llm_target_info"} == set()
    told = {t.label("family"): t.label("reason") for t in only(seen).tracks("llm_family_gap")}
    assert told["llm_gateway_disconnects_total"] == "never"
    assert "llm_preemptions_total" not in told


def test_two_engines_and_a_gateway_are_not_put_together_by_guessing():
    engines = [Observed(name, "auto", named(server(), name)) for name in "ab"]
    seen = joined([*engines, gateway("g")], ())
    assert [one.name for one in seen] == ["a", "b", "g"]
    assert not only(seen[0]).tracks("llm_gateway_calls_total")
    alone = diagnose(only(seen[2]), Settings(), scope={"instance": "g", "model": "m"})
    assert alone.outcome is Outcome.UNDETERMINED  # nothing says how the engines are, and nothing is broken
    assert alone.leading is None


def test_engines_that_name_one_gateway_are_a_service_of_its_name_and_one_alone_gets_it():
    engines = [Observed(name, "auto", named(server(), name)) for name in "abc"]
    seen = joined([*engines, gateway("g"), gateway("h")], (), {"a": "g", "b": "g", "c": "h"})
    assert [(one.name, one.engines) for one in seen] == [("g", ("a", "b")), ("a", ()), ("b", ()), ("c", ())]
    assert only(seen[0]).tracks("llm_gateway_calls_total")
    assert not only(seen[1]).tracks("llm_gateway_calls_total")  # its calls are no single engine's
    assert only(seen[3]).tracks("llm_gateway_calls_total")[0].label("gateway") == "h"


def test_calls_are_counted_at_the_first_of_two_gateways_in_a_row():
    first, second = gateway("litellm"), gateway("router", kind="vllm-router", connect_errors_total=3.0)
    seen = service_of({"a": server(), "b": server()}, first, second)
    window = only(seen)
    assert {t.label("gateway") for t in window.tracks("llm_gateway_calls_total")} == {"litellm"}
    assert read(seen, "first_calls_per_minute").value == pytest.approx(1200)
    assert {t.label("gateway") for t in window.tracks("llm_gateway_breaker_open")} == {"litellm", "router"}
    assert {t.label("gateway") for t in window.tracks("llm_gateway_connect_errors_total")} == {"router"}


@pytest.mark.parametrize(
    ("answered", "told"), [(0, ["chat", "a", "g"]), (PAGES - 2, ["chat", "a", "g"]), (PAGES - 1, ["chat", "a"])]
)
def test_a_gateway_that_answers_nobody_any_more_is_told_by_itself_too(answered, told):
    """Users who call it get nothing, while the engine behind it, without their calls, looks well. Two late pages are none."""
    up = gateway("g")
    pages = [
        page if i < answered else Snapshot(page.t, {series("llm_target_up", instance="any"): 0.0}, "refused")
        for i, page in enumerate(up.snapshots)
    ]
    front = Service(name="chat", engines=("a",), gateways=("g",))
    seen = joined([Observed("a", "auto", named(server(), "a")), Observed("g", "litellm", tuple(pages))], (front,))
    assert [one.name for one in seen] == told
    if "g" in told:
        assert judged(seen[-1]).outcome in (Outcome.CAUSE, Outcome.UNDETERMINED)


def test_another_models_calls_on_the_same_gateway_are_left_out_and_so_is_what_it_counts_for_all():
    seen = service_of({"a": server()}, gateway("g", models=("m", "other")))
    window = only(seen)
    assert {t.label("model") for t in window.tracks("llm_gateway_calls_total")} == {"m"}
    assert not window.tracks("llm_gateway_retries_total")
    gap = read(seen, "retry_ratio").gap
    assert gap is not None
    assert gap.kind is GapKind.UNSUPPORTED
    assert "for which of them" in gap.why
    assert window.tracks("llm_gateway_breaker_open")  # the gateway's own, whatever the model


def test_a_gateway_that_calls_its_only_model_differently_is_understood():
    seen = service_of({"a": server()}, gateway("g", models=("gpt-ours",)))
    assert list(scopes(seen.snapshots)) == [("chat", "m")]
    assert read(seen, "first_calls_per_minute").value == pytest.approx(1200)


def test_of_several_models_none_is_taken_that_is_called_otherwise_until_the_settings_name_it():
    gateways = gateway("g", models=("x", "y"))
    gap = read(service_of({"a": server()}, gateways), "first_calls_per_minute").gap
    assert gap is not None
    assert "it serves x, y, and none is called m" in gap.why
    named_ = service_of({"a": server()}, gateways, model="y")
    assert list(scopes(named_.snapshots)) == [("chat", "y")]
    (track,) = only(named_).tracks("llm_gateway_calls_total")
    assert track.values[1] == 200  # y's, twice those of x


def test_a_gateway_that_gives_no_page_is_said_to_be_missing():
    down = tuple(
        Snapshot(START + STEP * i, {series("llm_target_up", instance="g"): 0.0}, "refused") for i in range(PAGES + 1)
    )
    gap = read(service_of({"a": server()}, Observed("g", "litellm", down)), "retry_ratio").gap
    assert gap is not None
    assert "g: refused" in gap.why


def test_what_a_gateway_shows_of_engines_is_never_joined():
    page = Snapshot(1.0, {series("llm_requests_running", instance="g", model="m"): 9.0})
    out = join_gateway(Snapshot(1.0, {}), page, instance="chat", name="g")
    assert not [k for k in out.samples if k.name == "llm_requests_running"]


def test_models_are_chosen_by_name_or_where_there_is_one():
    def shown(*models: str) -> list[Snapshot]:
        return [Snapshot(1.0, {series("llm_gateway_calls_total", model=m): 1.0 for m in models})]

    assert choose(shown(), frozenset({"m"})).models is None
    assert choose(shown("m", "n"), frozenset({"m"})).models == {"m": "m"}
    assert choose(shown("x"), frozenset({"m"})).models == {"x": ""}
    assert choose(shown("x", "y"), frozenset({"m"}), "y").models == {"y": "y"}
    assert choose(shown("x", "y"), frozenset()).models is None  # the engines never answered


def of_calls(model: str, **ended: float) -> dict[Series, float]:
    """Calls for a model as a gateway's traces tell them."""
    labels = {"instance": "g", "model": model, "vantage": "gateway", "slo_class": "default"}
    return {series("llm_span_requests_total", **labels, ended=how.replace("_", "-")): n for how, n in ended.items()}


PLAIN = {series("llm_gateway_calls_total", instance="g"): 9.0}


def test_a_model_that_callers_made_up_makes_a_gateway_serve_no_second_one():
    """Any caller can ask for any name; what the page says of all calls must stay the engine's."""
    made_up = of_calls("mm", client_error=2.0, refused=1.0, left=1.0, ok=0.0, error=0.0)
    page = Snapshot(1.0, {**PLAIN, **of_calls("m", ok=5.0, client_error=1.0), **made_up})
    for engines, model in ((frozenset({"m"}), ""), (frozenset({"n"}), "m")):
        choice = choose([page], engines, model)
        assert (choice.models, choice.several) == ({"m": "m", "mm": "m"}, False)
    assert choose([page], frozenset({"n"})).models == {"m": "", "mm": ""}  # the gateway calls it as it likes
    joined = join_gateway(Snapshot(1.0, {}), page, instance="chat", name="g", choice=choose([page], frozenset({"m"})))
    ends = {k.label("ended"): v for k, v in joined.samples.items() if k.name == "llm_span_requests_total"}
    assert ends == {"ok": 5.0, "client-error": 3.0, "refused": 1.0, "left": 1.0, "error": 0.0}
    assert {k.label("model") for k in joined.samples if k.name == "llm_span_requests_total"} == {"m"}
    assert joined.samples[series("llm_gateway_calls_total", instance="chat", gateway="g")] == 9.0


def test_calls_for_made_up_models_alone_are_at_the_only_engine():
    page = Snapshot(1.0, {**PLAIN, **of_calls("mm", client_error=2.0)})
    assert choose([page], frozenset({"m"})).models == {"mm": "m"}
    assert choose([page], frozenset({"m", "n"})).models == {"mm": ""}
    assert not choose([page], frozenset({"m"})).several


@pytest.mark.parametrize("how", ["ok", "error"])
def test_a_model_that_somebody_tried_to_serve_is_another_one(how):
    page = Snapshot(1.0, {**PLAIN, **of_calls("m", ok=5.0), **of_calls("n", **{how: 1.0}), **of_calls("mm", left=1.0)})
    choice = choose([page], frozenset({"m"}))
    assert (choice.models, choice.several) == ({"m": "m"}, True)  # whose the third is nobody knows
    named = Snapshot(1.0, {series("llm_gateway_calls_total", instance="g", model="n"): 0.0, **of_calls("m", ok=1.0)})
    assert choose([named], frozenset({"m"})).several  # its page names it


def test_what_two_names_of_one_model_come_to_adds_up_and_the_newest_trace_stays():
    def told(name: str, model: str, **more: str) -> Series:
        return series(name, instance="g", model=model, vantage="gateway", **more)

    last, bucket = "llm_span_last_end_seconds", "llm_span_e2e_seconds_bucket"
    samples = {**of_calls("m", ok=1.0), **of_calls("mm", left=1.0), told(last, "m"): 50.0, told(last, "mm"): 40.0}
    samples |= {told(bucket, "m", le="1"): 2.0, told(bucket, "mm", le="1"): 3.0}
    exemplars = {
        told(bucket, "m", le="1"): Exemplar(0.5, 8.0, "a"),
        told(bucket, "mm", le="1"): Exemplar(0.5, 7.0, "b"),
    }
    page = Snapshot(1.0, samples, exemplars=exemplars)
    joined = join_gateway(Snapshot(1.0, {}), page, instance="chat", name="g", choice=choose([page], frozenset({"m"})))
    own = {"instance": "chat", "model": "m", "vantage": "gateway"}
    assert joined.samples[series(last, **own)] == 50.0
    assert joined.samples[series(bucket, **own, le="1")] == 5.0
    assert joined.exemplars == {series(bucket, **own, le="1"): Exemplar(0.5, 8.0, "a")}


# -- what the settings say ----------------------------------------------------------------------------------------------
TARGETS = [{"url": "http://a:1", "name": "chat-0"}, {"url": "http://b:1"}, {"url": "http://g:4000", "name": "litellm"}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"services": [{"name": "s", "engines": ["chat0"]}]}, r"no target 'chat0'\. Did you mean 'chat-0'"),
        ({"services": [{"name": "s", "engines": ["b:2"]}]}, r"no target 'b:2'\. Did you mean 'b:1'"),
        ({"services": [{"name": "s", "engines": ["chat-0"], "gateways": ["lite"]}]}, r"Did you mean 'litellm'"),
        ({"services": [{"name": "litellm", "engines": ["chat-0"]}]}, "'litellm' is taken"),
        ({"services": [{"name": "s", "engines": ["chat-0"]}] * 2}, "'s' is taken"),
        ({"services": [{"name": "s", "engines": []}]}, "at least one engine"),
        (
            {"services": [{"name": "s", "engines": ["chat-0", "litellm"], "gateways": ["litellm"]}]},
            "'litellm' is an engine and a gateway of 's'",
        ),
        ({"targets": [{**TARGETS[0], "gateway": "chat-0"}]}, "'chat-0' is named as the gateway in front of itself"),
        ({"services": [{"name": "s", "engine": ["chat-0"]}]}, r"unknown key 'engine'.*'engines'"),
        (
            {"targets": [{**TARGETS[0], "gateway": "litelm"}, *TARGETS[1:]]},
            r"no target 'litelm'\. Did you mean 'litellm'",
        ),
        ({"targets": [{**TARGETS[0], "role": "prefil"}]}, r"no role 'prefil', perhaps 'prefill'"),
    ],
)
def test_names_that_stand_for_nothing_are_refused_with_the_nearest_that_do(change, says):
    with pytest.raises(SettingsError, match=says):
        decode({"targets": TARGETS} | change, place="llmvitals.yaml")


def test_a_service_stands_only_where_all_its_engines_are_watched():
    service = Service(name="s", engines=("a", "b"), gateways=("g",))
    there = [Placed("a"), Placed("b")]
    assert views(there, [service]).services == (Service(name="s", engines=("a", "b")),)
    assert views(there[:1], [service]).services == ()
    named_ = [Placed("a", gateway="g"), Placed("b", gateway="g"), Placed("g", in_front=True)]
    found = views(named_, [Service(name="s", engines=("a", "b"))])
    assert found.services == (service,)  # its engines say what stands in front of them
    assert found.joined == {"g"}


# -- told to people, machines and scrapers -----------------------------------------------------------------------------
def test_the_report_begins_with_the_service_and_the_worst_verdict_still_leads_the_document():
    dead = dies(8, Server())
    members = {"a": server(), "b": server(), "c": dead}
    whole = judged(service_of(members))
    each = [diagnose(w, Settings(), scope=scope_of(name, "m")) for name, w in members.items()]
    ordered = worst([whole, *each])
    assert ordered[0].scope["instance"] == "c"
    assert services_first(ordered)[0].scope == {"instance": "chat", "model": "m", "engines": ["a", "b", "c"]}
    told = document(ordered)
    assert told["scope"]["instance"] == "c"
    assert {row["name"]: row["verdict"] for row in told["targets"]}["chat"] == "healthy"
    assert report(whole)


def settings(*, services: tuple[Service, ...] = (), **fronts: str) -> Settings:
    return Settings(
        targets=tuple(
            Target(url=f"http://{name}:1", name=name, gateway=fronts.get(name, "")) for name in ("a", "b", "router")
        ),
        services=services,
        exporter=Exporter(window_seconds=100.0),
    )


def served(config: Settings, pages: int = PAGES):
    engine = Engine(config, clock=lambda: 0.0)
    for i in range(pages):
        t = 1000.0 + STEP * i
        bodies = {"a": vllm_dp(i), "b": vllm_dp(i), "router": router(i)}
        told = engine.record({name: RawPage(t, 0.01, 200, body) for name, body in bodies.items()})
    return engine.publish(t, told)


def lines(page: bytes, start: str) -> list[str]:
    return [line for line in page.decode().splitlines() if line.startswith(start)]


def test_the_exporter_gives_a_service_signals_and_a_verdict_and_counts_nothing_twice_on_its_page():
    cycle = served(settings(services=(CHAT,)))
    assert [(s.instance, s.model) for s in cycle.scopes] == [("chat", "m"), ("a", "m"), ("b", "m")]
    assert len(lines(cycle.page, 'llm_triage_verdict{instance="chat",model="m"')) == len(Outcome)
    running = lines(cycle.page, "llm_requests_running{")
    assert sum(float(line.split()[-1]) for line in running) == 22  # those of its engines, and no sum beside them
    assert lines(cycle.page, 'llm_running_max{instance="chat",model="m",window="100s"} 22')
    # the gateway's numbers are on the page once, under its own name, without a state that would ask for a verdict
    assert {line.split("instance=")[1].split(",")[0] for line in lines(cycle.page, "llm_gateway_calls_total{")} == {
        '"router"'
    }
    assert not [line for line in lines(cycle.page, "llm_target_up") if "router" in line]
    assert lines(cycle.page, 'llmvitals_collector_success{collector="gateway",instance="router"} 1')
    verdict = cycle.scopes[0].verdict
    assert verdict is not None
    assert verdict.scope == {"instance": "chat", "model": "m", "engines": ["a", "b"]}


def test_a_stored_page_of_the_exporter_gives_the_services_verdict_again():
    config = settings(services=(CHAT,))
    cycle = served(config)
    moments = [served(config, pages=n + 1) for n in range(PAGES)]
    stored: dict[str, list[Snapshot]] = {}
    for moment in moments:
        for snapshot in moment.snapshots:
            stored.setdefault(next(iter(snapshot.samples)).label("instance"), []).append(snapshot)
    seen = joined([Observed(name, "auto", tuple(pages)) for name, pages in stored.items()], config.services)
    again = diagnose(only(of(seen, "chat")), config, scope=scope_of("chat", "m", ("a", "b")))
    assert again == cycle.scopes[0].verdict


def test_the_exporter_joins_a_gateway_to_the_one_engine_that_names_it():
    cycle = served(settings(a="router"))
    assert [(s.instance, s.model) for s in cycle.scopes] == [("a", "m"), ("b", "m")]
    calls = lines(cycle.page, "llm_gateway_calls_total{")
    assert ['instance="a"' in line and 'gateway="router"' in line for line in calls] == [True]


def test_a_recording_keeps_what_belongs_together(tmp_path):
    bodies = {"a": vllm_dp, "b": vllm_dp, "router": router}
    targets = [Recorded("a", (), "auto", role="both"), Recorded("b", (), "auto"), Recorded("router", (), "auto")]
    with Recorder(tmp_path / "c", targets, [CHAT]) as recorder:
        for i in range(PAGES):
            for name, body in bodies.items():
                recorder.add(name, RawPage(1000.0 + STEP * i, 0.01, 200, body(i)))
    seen = read_capture(tmp_path / "c")
    assert [one.name for one in seen] == ["chat", "a", "b"]
    direct = observed([feed(name, body) for name, body in bodies.items()], services=[CHAT])
    for page, other in zip(of(seen, "chat").snapshots, of(direct, "chat").snapshots, strict=True):
        assert total(page, "llm_requests_running") == total(other, "llm_requests_running") == 22
    assert {k.label("role") for k in of(seen, "a").snapshots[-1].samples if k.name == "llm_engine_role"} == {"both"}
