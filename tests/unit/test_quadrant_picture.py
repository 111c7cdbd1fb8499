"""The picture as it is drawn: places and words of points, lines, ticks and the way of one replica."""

from dataclasses import replace

import pytest

from llmvitals.app.ask import Failure
from llmvitals.app.fleet import ask_fleet, ask_trail
from llmvitals.app.quadrant import LEFT, NAMED, UNTOLD, picture
from llmvitals.settings import Settings, Source
from llmvitals.triage.history import Trace
from llmvitals.triage.replica import COMPUTE, KV, Fleet, Limits, Replica, decode
from support.fake_exporter import WAY, FakeExporter, replicas

LIMITS = Limits(kv=0.95, activity=0.6)


def fleet(*found, limits=LIMITS):
    return Fleet(1000.0, 60.0, limits, found)


def at(kv, activity=0.5, name="a", **more):
    return Replica(name, "m", kv=kv, activity=activity, **({"activity_of": COMPUTE} | more))


@pytest.fixture
def drawn():
    return picture(decode(replicas(), place="x"), ("vllm-0", "llama-3-8b"))


@pytest.mark.parametrize(
    ("kv", "place"), [(0.0, 0.0), (0.475, LEFT / 2), (0.95, LEFT), (0.975, (1 + LEFT) / 2), (1.0, 1.0), (1.3, 1.0)]
)
def test_kv_is_even_on_both_sides_of_its_limit(kv, place):
    assert picture(fleet(at(kv))).points[0].x == pytest.approx(place)


def test_limits_at_the_ends_divide_by_nothing():
    for limit in (0.0, 1.0):
        found = picture(fleet(at(0.0), at(1.0, name="b"), limits=Limits(limit, 0.6)))
        assert all(0.0 <= p.x <= 1.0 for p in found.points)


def test_ticks_name_the_limits_and_stand_apart():
    found = picture(fleet(at(0.5)))
    assert [t.text for t in found.x_ticks] == ["0 %", "25 %", "50 %", "75 %", "95 %", "100 %"]
    assert [t.text for t in found.y_ticks] == ["0 %", "25 %", "50 %", "60 %", "75 %", "100 %"]
    assert (found.x_limit, found.y_limit) == (LEFT, 0.6)
    assert "75 %" not in [t.text for t in picture(fleet(at(0.5), limits=Limits(0.95, 0.77))).y_ticks]


def test_who_waits_is_larger_coloured_and_says_how_many(drawn):
    waits = {p.label: (p.waits, p.waiting, p.inward) for p in drawn.points}
    assert waits["vllm-0 (12)"] == (True, 12.0, True)
    assert waits["vllm-3"] == (False, 0.0, False)


def test_utilisation_is_no_compute_in_any_words(drawn):
    point = next(p for p in drawn.points if p.label == "vllm-4")
    assert not point.compute
    assert dict(point.facts)["GPU activity"] == "78 % utilisation (not compute)"
    row = next(r for r in drawn.lines if r.instance == "vllm-4")
    assert row.where == UNTOLD
    counts = {q.title: count for q, count in drawn.quadrants}
    assert counts["Compute binds"] == "1 replica, requests wait at 1"


def test_what_needs_attention_comes_first(drawn):
    assert [r.instance for r in drawn.lines] == ["vllm-0", "vllm-1", "vllm-2", "vllm-3", "vllm-4"]
    first = drawn.lines[0]
    assert (first.kv, first.kv_note) == ("98.5 %", "estimate")
    assert (first.activity, first.waiting) == ("31 % SMs active", "12")
    assert (first.binds, first.joined) == ("KV cache", "GPU 0, joined by pod labels")
    assert first.badge.word == "KV cache saturation"


def test_who_has_no_place_is_listed_with_the_reason_and_never_at_zero(drawn):
    assert {m.instance: (m.known, m.why) for m in drawn.missing} == {
        "sglang-0": ("KV 70 %", "GPU: no GPU is joined: GPU 3 is not on the GPU page"),
        "vllm-9": ("GPU 0 % SMs active", "KV: refused the connection"),
    }
    assert not {"sglang-0", "vllm-9"} & {label.partition(" ")[0] for p in drawn.points for label in [p.label]}
    unknown = picture(fleet(at(0.5)))
    assert dict(unknown.points[0].facts)["Waiting"] == "not known"


def test_the_way_leads_to_the_point_and_leaves_out_what_was_not_known():
    times = tuple(float(t) for t in range(4))
    traces = {KV: Trace(times, (0.1, 0.2, None, 0.5)), COMPUTE: Trace(times, (0.3, None, 0.4, 0.5))}
    found = picture(fleet(at(0.5)), ("a", "m"), traces)
    assert found.trail == ((pytest.approx(0.1 / 0.95 * LEFT), 0.3), (found.points[0].x, 0.5))
    assert picture(fleet(at(0.5)), ("b", "m"), traces).trail == ()
    assert picture(fleet(at(0.5, activity_of="gpu_busy_mean_ratio")), ("a", "m"), traces).trail == ()


def test_in_a_crowd_only_those_that_matter_have_names():
    crowd = [at(0.2, 0.9, name=f"r{n}") for n in range(NAMED)]
    assert all(p.label for p in picture(fleet(*crowd)).points)
    odd = [at(0.2, 0.1, name="odd"), replace(at(0.2, 0.9, name="queue"), waiting=3.0)]
    labels = [p.label for p in picture(fleet(*crowd, *odd), ("r7", "m")).points if p.label]
    assert sorted(labels) == ["odd", "queue (3)", "r7"]


def test_who_stands_apart_is_said_beside_its_place():
    found = picture(fleet(at(0.2, 0.9, name="a"), at(0.2, 0.8, name="b"), at(0.2, 0.1, name="c")))
    apart = {row.instance: row.apart for row in found.lines}
    assert apart == {"a": "", "b": "", "c": 'alone here: its 2 peers are in "Compute binds"'}


@pytest.fixture
def exporter():
    fake = FakeExporter()
    yield fake
    fake.close()


def test_an_exporter_is_asked_once_for_all_and_once_for_the_way_of_one(exporter):
    source = Source(name="x", url=f"{exporter.url}/")
    found = ask_fleet(source, None, Settings())
    assert [r.instance for r in found.replicas] == [r["instance"] for r in replicas()["replicas"]]
    traces = ask_trail(source, found.replicas[0], None, Settings())
    assert traces[KV].values == tuple(WAY[KV])
    assert [path for path, _ in exporter.asked] == ["/replicas", "/history"]
    assert exporter.asked[-1][1]["instance"] == ["vllm-0"]


@pytest.mark.parametrize(
    ("served", "said"),
    [((404, b"{}"), "answered with status 404"), ((200, b"[]"), "cannot be read"), ((200, b"<html>"), "not JSON")],
)
def test_a_source_that_does_not_say_is_a_failure_with_its_place(exporter, served, said):
    exporter.answers["/replicas"] = served
    found = ask_fleet(Source(name="x", url=exporter.url), None, Settings())
    assert isinstance(found, Failure)
    assert said in found.thing
    assert found.place == f"{exporter.url}/replicas"
    exporter.answers["/history"] = served
    assert ask_trail(Source(name="x", url=exporter.url), at(0.5), None, Settings()) == {}


def test_an_unknown_kind_of_source_is_said():
    found = ask_fleet(Source(name="x", url="http://127.0.0.1:9", kind="graphite"), None, Settings())
    assert "unknown kind 'graphite'" in found.thing
