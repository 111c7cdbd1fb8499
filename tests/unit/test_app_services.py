"""What the fleet's page makes of a fleet: worst first, filtered, paged; who is old or gone is told apart."""

from llmvitals.app.quadrant import CROWD, picture
from llmvitals.app.services import GONE, OLD, PAGE, UNJUDGED, board, narrowed
from llmvitals.settings import Service, Settings
from llmvitals.triage.replica import Fleet, Limits, Replica, Whole
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.view import OUTCOMES

END = 1_700_000_000.0
SETTINGS = Settings()


def one(name, model="m", verdict="healthy", **more):
    """A replica that was heard of just now."""
    return Replica(name, model, **{"verdict": verdict, "newest": END, **more})


def fleet(*replicas, services=()):
    """A fleet at a made moment."""
    return Fleet(END, 60.0, Limits(0.95, 0.6), replicas, services)


def ill(name, cause="preemption-thrash", confidence=0.9, **more):
    """A replica with a cause."""
    return one(name, verdict="cause", leading=cause, confidence=confidence, **more)


def test_the_worst_comes_first_and_of_alike_ones_where_most_wait():
    found = board(
        fleet(
            one("calm"),
            ill("sure", confidence=0.95),
            one("idle", verdict="no-traffic"),
            ill("unsure", confidence=0.5),
            one("dark", verdict="undetermined"),
            one("busy", waiting=3.0),
        ),
        SETTINGS,
    )
    assert [row.instance for row in found.rows] == ["sure", "unsure", "dark", "busy", "calm", "idle"]
    assert [(badge.word, n) for badge, n in found.counts] == [
        ("Cause found", 2),
        ("Undetermined", 1),
        ("Healthy", 2),
        ("No traffic", 1),
    ]


def test_who_fell_silent_is_old_and_is_counted_by_no_verdict():
    found = board(
        fleet(one("a"), one("late", newest=END - 61), one("lost", verdict="", newest=END - 300, gone=True)), SETTINGS
    )
    rows = {row.instance: row for row in found.rows}
    assert rows["late"].mark is OLD
    assert rows["late"].since == "22:12:19"  # 61 s before 22:13:20 UTC
    assert rows["lost"].badge is GONE
    assert rows["lost"].since == "22:08:20"
    assert dict(found.counts) == {GONE: 1, OLD: 1, OUTCOMES[Outcome.HEALTHY]: 1}
    assert found.rows[0].instance == "lost"  # nobody knows how it is


def test_services_of_the_settings_first_then_models_each_as_bad_as_its_worst():
    settings = Settings(services=(Service(name="chat", engines=("a", "b")),))
    found = board(fleet(one("a"), one("b"), ill("c", waiting=4.0), one("d", waiting=2.0)), settings)
    assert [(s.name, s.by_model, s.total, s.waiting) for s in found.services] == [
        ("m", True, 2, "6"),
        ("chat", False, 2, ""),
    ]
    assert found.services[0].worst == ("c", "m")
    assert not found.services[0].own


def test_a_service_that_is_judged_as_one_stands_as_its_own_verdict_says():
    whole = Whole("chat", "m", ("a", "b"), "cause", "unbounded-queue", 0.8, hurt=True)
    found = board(fleet(one("a"), one("b"), one("c"), services=(whole,)), SETTINGS)
    chat, rest = found.services
    assert (chat.own, chat.badge.word, chat.worst) == (True, "Unbounded queue", ("chat", "m"))
    assert (rest.by_model, rest.total) == (True, 1)
    unknown = Whole("far", "x", (), "healthy")
    far = next(s for s in board(fleet(one("a"), services=(unknown,)), SETTINGS).services if s.name == "far")
    assert not far.told


def test_every_word_of_the_filter_must_be_there():
    made = fleet(ill("eu-1"), ill("us-1"), one("eu-2"), one("eu-3", verdict=""))
    assert [r.instance for r in board(made, SETTINGS, "eu preemption").rows] == ["eu-1"]
    assert [r.instance for r in board(made, SETTINGS, "not judged").rows] == ["eu-3"]
    assert board(made, SETTINGS, "nothing").matching == 0
    assert board(made, SETTINGS, "EU").total == 4
    assert len(narrowed(made, "eu").replicas) == 3
    assert board(made, SETTINGS).rows[-1].badge is not UNJUDGED


def test_a_thousand_replicas_come_page_by_page():
    made = fleet(*(one(f"r-{n:04}") for n in range(1000)))
    first, last = board(made, SETTINGS), board(made, SETTINGS, page=99)
    assert len(first.rows) == PAGE
    assert (first.pages, last.page) == (20, 20)
    assert last.rows[-1].instance == "r-0999"
    assert len(board(made, SETTINGS, page=-3).rows) == PAGE


def test_bars_show_the_slowest_on_one_scale_and_say_what_is_not_timed():
    times = {"queue_mean_seconds": 3.0, "prefill_mean_seconds": 1.0, "decode_mean_seconds": 4.0}
    made = fleet(one("quick", numbers={"queue_mean_seconds": 1.0}), one("slow", numbers=times), one("mute"))
    slow, quick = board(made, SETTINGS).bars
    assert (slow.instance, [share for _, _, share in slow.phases]) == ("slow", [3 / 8, 1 / 8, 4 / 8])
    assert [(value, share) for _, value, share in quick.phases] == [(1.0, 1 / 8), (None, 0.0), (None, 0.0)]
    assert len(board(fleet(*(one(f"r{n}", numbers=times) for n in range(40))), SETTINGS).bars) == 12


def test_many_points_have_no_names():
    made = fleet(*(one(f"r{n}", kv=0.5, activity=0.5, waiting=1.0) for n in range(CROWD + 1)))
    drawn = picture(made, ("r7", "m"))
    assert [point.label for point in drawn.points if point.label] == ["r7 (1)"]
    plain = picture(made, plain=True)
    assert len(plain.points) == CROWD + 1
    assert not any(point.facts for point in plain.points)
