"""Exports are bounded in bytes, decoded by one thread, counted before they are acknowledged, and none is counted twice."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
import zlib

import pytest

from llmvitals.errors import SettingsError, SpansError
from llmvitals.exporters.spans import extra
from llmvitals.exporters.spans.grpc import peer_ip
from llmvitals.exporters.spans.intake import QUIET_SECONDS, Intake
from llmvitals.exporters.spans.result import Answer, Result
from llmvitals.exporters.spans.unpack import TooLargeError, claimed, is_packed, unpacked
from llmvitals.settings import Spans
from support.spans import SECRET, Gate, Remembers

WAIT = 10.0


@pytest.fixture
def ledger():
    return Remembers()


@pytest.fixture
def made(ledger):
    """Makes an intake over the ledger; it is ended with the test."""
    intakes: list[Intake] = []

    def make(decode, monotonic=None, **limits) -> Intake:
        more = {} if monotonic is None else {"monotonic": monotonic}
        intakes.append(Intake(ledger, Spans(**limits), decode=decode, **more))
        return intakes[-1]

    yield make
    for intake in intakes:
        intake.close(WAIT)


def results(intake: Intake) -> dict[str, int]:
    return {result.value: count for (_, result), count in intake.exports().items()}


def test_an_export_is_acknowledged_once_the_ledger_has_it(made, ledger):
    gate = Gate()
    intake = made(gate)
    answer = intake.take(b"spans", "http", "10.0.0.1")
    assert gate.asked.wait(WAIT)
    assert (answer.done(), ledger.taken, results(intake), intake.pending) == (False, [], {}, 5)
    gate.open.set()
    assert answer.result(WAIT) == Answer(Result.OK)
    assert [(batch.spans, peer) for batch, peer in ledger.taken] == [(5, "10.0.0.1")]
    assert (results(intake), intake.pending) == ({"ok": 1}, 0)


def test_beyond_the_bytes_in_memory_senders_are_told_to_come_again_and_later_taken(made, ledger):
    gate = Gate()
    intake = made(gate, max_pending_bytes=10)
    waiting = [intake.take(b"12345", "http", ""), intake.take(b"12345", "grpc", "")]
    refused = intake.take(b"1", "http", "").result(0)  # at once: nobody waits for room
    assert (refused.result, intake.pending) == (Result.BUSY, 10)
    gate.open.set()
    assert [one.result(WAIT).result for one in waiting] == [Result.OK, Result.OK]
    assert intake.take(b"1", "http", "").result(WAIT).result is Result.OK
    assert intake.exports() == {("http", Result.OK): 2, ("grpc", Result.OK): 1, ("http", Result.BUSY): 1}
    assert (ledger.spans, intake.pending) == (11, 0)


def test_a_bound_below_one_export_refuses_none_for_ever(made):
    intake = made(Gate(is_open=True), max_pending_bytes=2, max_body_bytes=100)
    assert intake.take(b"12345", "http", "").result(WAIT).result is Result.OK


def test_a_compressed_export_takes_the_room_that_it_says_it_needs(made):
    gate = Gate()
    intake = made(gate, max_pending_bytes=1500, max_body_bytes=1200)
    first = intake.take(b"x", "http", "")
    packed = intake.take(gzip.compress(b"\0" * 1000), "http", "", packed=True)
    assert intake.pending == 1001
    assert intake.take(gzip.compress(b"\0" * 500), "http", "", packed=True).result(0).result is Result.BUSY
    gate.open.set()
    assert [first.result(WAIT).result, packed.result(WAIT).result] == [Result.OK, Result.OK]
    assert (gate.bodies, intake.pending) == ([b"x", b"\0" * 1000], 0)


def test_bytes_count_while_a_body_arrives(made):
    intake = made(Gate(is_open=True), max_pending_bytes=10)
    other, hold = intake.hold(), intake.hold()
    assert other.grow(4)
    assert hold.grow(3)
    assert hold.grow(6)
    assert not hold.grow(7)
    assert intake.pending == 10
    other.drop()
    assert hold.grow(7)
    assert intake.take(b"1234567", "http", "", hold=hold).result(WAIT).result is Result.OK
    assert intake.pending == 0


def test_who_went_away_before_its_turn_is_not_decoded_and_gives_its_room_back_only_then(made, ledger):
    gate = Gate()
    intake = made(gate)
    first, gone = intake.take(b"first", "grpc", ""), intake.take(b"gone", "grpc", "")
    assert gone.cancel()
    assert intake.pending == 9  # its bytes are in memory still
    gate.open.set()
    assert first.result(WAIT).result is Result.OK
    assert intake.take(b"last", "grpc", "").result(WAIT).result is Result.OK
    assert gate.bodies == [b"first", b"last"]
    assert (results(intake), intake.pending, ledger.spans) == ({"ok": 2, "incomplete": 1}, 0, 9)


def malformed(body: bytes, config: Spans):
    raise SpansError("not an export", place="a sender", remedy="Send one.")


def broken(body: bytes, config: Spans):
    raise UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, "invalid")


@pytest.mark.parametrize(("decode", "result"), [(malformed, "malformed"), (broken, "failed")])
def test_what_cannot_be_decoded_is_counted_and_ends_nothing(made, caplog, decode, result):
    intake = made(lambda body, config: decode(body, config) if body == b"bad" else Gate(is_open=True)(body, config))
    with caplog.at_level(logging.WARNING, logger="llmvitals.exporter"):
        answer = intake.take(b"bad", "http", "").result(WAIT)
    assert intake.take(b"good", "http", "").result(WAIT).result is Result.OK
    assert results(intake) == {result: 1, "ok": 1}
    assert f"result={result}" in caplog.text
    assert SECRET not in caplog.text + answer.message


def test_spans_that_a_fault_of_the_ledger_loses_are_counted_as_lost(made, ledger):
    intake = made(Gate(is_open=True))
    ledger.error = KeyError(SECRET)
    answer = intake.take(b"12345", "http", "").result(WAIT)
    ledger.error = None
    assert intake.take(b"123", "http", "").result(WAIT).result is Result.OK
    assert (answer.result, intake.lost, ledger.spans) == (Result.FAILED, 5, 3)
    assert SECRET not in answer.message
    assert "take" in answer.message  # where it failed


def test_a_sender_is_told_which_spans_could_not_be_used(made):
    intake = made(Gate(is_open=True, refused={"order": 2, "new-reason": 1, "ids": 0}))
    answer = intake.take(b"12345", "http", "").result(WAIT)
    assert (answer.result, answer.rejected, answer.message) == (
        Result.PARTIAL,
        3,
        "2 ended before it began, 1 new-reason",
    )


def test_a_body_that_is_too_large_is_never_decoded(made):
    gate = Gate(is_open=True)
    intake = made(gate, max_body_bytes=1000)
    bomb = gzip.compress(b"\0" * 5_000_000)
    lying = bomb[:-4] + (7).to_bytes(4, "little")
    for body, packed in ((b"x" * 1001, False), (b"x" * 1001, True), (bomb[:900] + b"", True), (lying, True)):
        assert intake.take(body, "http", "", packed=packed).result(WAIT).result is Result.TOO_LARGE
    assert (gate.bodies, intake.pending) == ([], 0)
    assert results(intake) == {"too-large": 4}


def test_what_comes_after_the_end_is_told_to_come_again_and_what_waited_is_worked_off(made, ledger):
    gate = Gate()
    intake = made(gate)
    waiting = intake.take(b"12345", "http", "")
    assert gate.asked.wait(WAIT)
    intake.close(0.0)
    assert intake.take(b"late", "http", "").result(0).result is Result.BUSY
    gate.open.set()
    assert waiting.result(WAIT).result is Result.OK
    assert ledger.spans == 5


def test_a_flood_of_refusals_is_one_line_a_minute_and_all_are_counted(made, caplog):
    now = [0.0]
    intake = made(malformed, monotonic=lambda: now[0])
    with caplog.at_level(logging.WARNING, logger="llmvitals.exporter"):
        for _ in range(50):
            intake.take(b"x", "http", "").result(WAIT)
        now[0] += QUIET_SECONDS
        intake.take(b"x", "http", "").result(WAIT)
    assert [record.getMessage().split("exports=")[1].split()[0] for record in caplog.records] == ["1", "51"]
    assert results(intake) == {"malformed": 51}


def test_another_ledger_and_other_limits_count_from_the_next_export_on(made, ledger):
    intake = made(Gate(is_open=True), max_body_bytes=10)
    intake.take(b"12345", "http", "").result(WAIT)
    other = Remembers()
    intake.reload(Spans(max_body_bytes=3), other)
    assert intake.take(b"123", "http", "").result(WAIT).result is Result.OK
    assert intake.take(b"1234", "http", "").result(WAIT).result is Result.TOO_LARGE
    assert (ledger.spans, other.spans) == (5, 3)
    assert (intake.shown([]), ledger.settled, other.settled) == ({}, 0, 1)


# -- compressed bodies ----------------------------------------------------------------------------------------------
TEXT = b"one export of spans " * 50


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_what_grpc_calls_gzip_and_deflate_comes_back(pack):
    assert is_packed(pack(TEXT))
    assert unpacked(pack(TEXT), len(TEXT)) == TEXT


def test_an_export_itself_is_never_taken_for_a_compressed_one():
    assert not any(is_packed(bytes([0x0A]) + bytes([second])) for second in range(256))
    assert not is_packed(b"")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (gzip.compress(TEXT, mtime=0)[:-9], "too early"),
        (gzip.compress(TEXT, mtime=0) + b"more", "follows"),
        (b"\x1f\x8b plain", "damaged"),
        (b"", "too early"),
    ],
)
def test_a_damaged_body_says_how(body, why):
    with pytest.raises(ValueError, match=why):
        unpacked(body, 10_000)


def test_one_byte_too_many_is_too_many():
    with pytest.raises(TooLargeError):
        unpacked(gzip.compress(TEXT), len(TEXT) - 1)


def test_the_room_for_a_compressed_body_is_bounded_on_both_sides():
    packed = gzip.compress(TEXT)
    assert claimed(packed, 10_000) == len(TEXT)
    assert claimed(packed, 100) == 100
    assert claimed(b"\x1f\x8b" + b"\xff" * 50, 10_000) == 10_000
    assert claimed(b"\x1f\x8b" + b"\0" * 50, 10_000) == 52


# -- who sends ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("peer", "ip"),
    [
        ("ipv4:10.0.0.7:52012", "10.0.0.7"),
        ("ipv6:%5B::1%5D:52012", "::1"),
        ("ipv6:[2001:db8::7]:52012", "2001:db8::7"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:52012", "10.0.0.7"),  # IPv4 at a socket that listens on both
        ("unix:/run/spans.sock", ""),
        ("ipv4:nonsense:1", ""),
        ("", ""),
    ],
)
def test_the_address_of_a_sender_over_grpc(peer, ip):
    assert peer_ip(peer) == ip


# -- the extra ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("config", "absent", "place"),
    [
        (Spans(http=":4318"), "opentelemetry.proto.collector.trace.v1.trace_service_pb2", "spans.http"),
        (Spans(grpc=":4317"), "grpc", "spans.grpc"),
    ],
)
def test_a_receiver_without_what_it_needs_says_what_to_install(monkeypatch, config, absent, place):
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(SettingsError) as caught:
        extra.check(config)
    assert caught.value.place == place
    assert "pip install 'llmvitals[otel]'" in caught.value.remedy
    extra.check(Spans())


def test_an_exporter_that_takes_no_traces_loads_nothing_of_the_extra():
    code = (
        "import sys; from llmvitals.exporters.lifecycle import Exporter; from llmvitals.settings import Settings; "
        "Exporter(Settings()); "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'grpc', 'opentelemetry', 'google'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
