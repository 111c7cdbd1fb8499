"""Ten thousand connections, and clients that drip, sleep, reset and never read: a scraper is answered all the while."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import pytest

from llmvitals.exporters import guard
from support import attackers
from support.attackers import GET, Scraper, Serving, closed, connected, repeated, sent, settings
from support.hostile import MIB, Hostile
from support.reliability import Part
from support.waiting import wait_for

CROWD = 10_000
SOURCES = [f"127.0.0.{n}" for n in range(2, 42)]
ENOUGH = 16  # answers that a scraper gets while an attack is on


@pytest.fixture(scope="module", autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CROWD + 1000:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (CROWD + 1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with Hostile() as hostile:
        folder = tmp_path_factory.mktemp("serving")
        with Serving(folder, *settings(folder, [hostile.url(f"/ok?{n}") for n in range(4)])) as one:
            yield one


@dataclass(frozen=True)
class Attack:
    """What somebody does, and what the page of reliability says of it.

    ``first``: it is under way before the scraper begins. Who shares the scraper's address may, while hundreds come at once, take
    the place of a connection of its own that has not asked yet; nobody can tell the two apart.
    """

    behaviour: str
    begin: Callable[[tuple[str, int]], Iterator[None]]
    first: bool = False


def held(address, count=CROWD, sources=SOURCES, first=b""):
    made = connected(address, count, sources=sources)
    if first:
        sent(made, first)
    try:
        yield made
    finally:
        closed(made)


def silent(address):
    yield from held(address)


def kept(address):
    yield from held(address, first=b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")


def from_the_scraper_s_address(address):
    yield from held(address, 2000, ["127.0.0.1"], b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")


def dripped(address):
    with contextmanager(held)(address, 700, SOURCES[:2], b"GET /metrics HTTP/1.1\r\nHost: x\r\nx: ") as made:

        def drip():
            for one in made:
                with suppress(OSError):
                    one.send(b"a")

        with repeated(drip):
            yield


def unread(address):
    yield from held(address, 700, SOURCES[:1], GET * 50)


def reset(address):
    def storm():
        made = connected(address, 200, sources=SOURCES)
        sent(made, b"GET /metrics HTTP/1.1\r\nHo")
        closed(made, reset=True)

    with repeated(storm, every=0.01):
        yield


def costly(address):
    def ask():
        made = connected(address, 40, sources=SOURCES[:4])
        path = "/history?" + "&".join(f"signal=unknown_{n}" for n in range(100)) + "&signal=*"
        asks = ("/capture", path, "/triage", "/replicas", "/history?instance=nobody", "/capture?instance=nobody")
        for n, path in enumerate(asks):
            sent(made[n :: len(asks)], f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        closed(made)

    with repeated(ask, every=0.1):
        yield


ATTACKS = [
    Attack("10,000 connections that say nothing, from 40 addresses", silent),
    Attack("10,000 connections that ask once and stay, from 40 addresses", kept),
    Attack("2,000 connections held from the scraper's own address", from_the_scraper_s_address, first=True),
    Attack("700 requests that drip header by header", dripped),
    Attack("700 clients that ask for 50 pages and read none", unread),
    Attack("a storm of connections that are reset within a request", reset),
    Attack("captures, histories and triages asked for without end", costly),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.begin.__name__)
def test_a_scraper_is_answered_and_nothing_stays_behind(serving, reliability, attack):
    files, threads, memory = serving.held()
    with ExitStack() as both:
        if attack.first:
            both.enter_context(contextmanager(attack.begin)(serving.address))
        scraper = both.enter_context(Scraper(serving))
        if not attack.first:
            both.enter_context(contextmanager(attack.begin)(serving.address))
        scraper.more(ENOUGH)
        assert serving.held()[0] <= files + guard.CONNECTIONS + 40
    assert scraper.bad == []
    assert scraper.good >= ENOUGH
    wait_for(lambda: serving.held()[0] <= files + 4, "the files come back", seconds=30)
    assert serving.held()[1] <= threads + 8  # workers for answers that cost something stay
    assert serving.held()[2] - memory < 128 * MIB
    assert serving.process.poll() is None
    assert "Traceback" not in serving.log()
    reliability(
        Part.SCRAPER,
        attack.behaviour,
        "a scraper is answered all the while; files and memory come back",
        "every scrape answered, no file kept",
    )


def test_a_process_that_may_open_few_files_goes_on(tmp_path, reliability):
    with Hostile() as hostile, Serving(tmp_path, hostile.url("/ok"), files=256) as serving:
        with Scraper(serving) as scraper:
            with contextmanager(held)(serving.address, 3000) as made:
                scraper.more(ENOUGH)
                assert made
                assert serving.own("llmvitals_http_connections_cut_total") > 1000
            scraper.more(ENOUGH)
        assert scraper.bad == []
        assert (
            serving.own('llmvitals_collector_success{collector="engine",instance="' + hostile_name(hostile) + '"}') == 1
        )
    reliability(
        Part.SCRAPER,
        "3,000 connections to a process that may open 256 files",
        "accepting goes on, targets are still read",
        "every scrape answered",
    )


def hostile_name(hostile: Hostile) -> str:
    return f"127.0.0.1:{hostile.port}"


def test_who_says_that_it_sends_no_more_is_answered(serving, reliability):
    told = attackers.answer(serving.address, GET, half=True)
    assert told.startswith(b"HTTP/1.1 200 ")
    assert b"llmvitals_build_info" in told
    reliability(Part.SCRAPER, "a client that half-closes after its request", "it is answered whole", "answered whole")


def test_readers_that_stop_share_one_page(tmp_path, reliability):
    readers = 300
    with ExitStack() as stack:
        hostile = stack.enter_context(Hostile())
        serving = stack.enter_context(
            Serving(tmp_path, *settings(tmp_path, [hostile.url(f"/ok?{n}") for n in range(60)]))
        )
        size = int(serving.own("llmvitals_page_bytes"))
        assert size > MIB
        before = serving.held()[2]
        made = connected(serving.address, readers, sources=SOURCES)
        sent(made, GET)
        wait_for(lambda: serving.own("llmvitals_http_connections") > readers, "the readers")
        grown = serving.held()[2] - before
        closed(made)
        assert grown < readers * size / 4
    reliability(
        Part.SCRAPER,
        "300 clients that read nothing of a page of megabytes",
        "nobody holds a page of its own",
        "less than a quarter of 300 pages",
    )
