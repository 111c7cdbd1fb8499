"""Spans over HTTP: what the receiver costs per span, all its threads together, against decoding the same bodies alone.

A sender in a process of its own posts exports of 512 spans in vLLM's shape, as its SDK batches them, over kept connections, and
sends again what is refused for want of room. The receiver runs in this process as the exporter runs it, with the ledger behind it
and a page that is read once a second. Decoding alone is measured on the same bodies in the same run, in turn with it. Each span is
another request: ids, times and ends differ, so that nothing is dropped as sent twice.
"""

from __future__ import annotations

import gc
import http.client
import math
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from bench import Bench, Measured
from llmvitals.exporters.lifecycle import GC_THRESHOLDS
from llmvitals.exporters.spans.receiver import Receiver
from llmvitals.settings import Settings, Slo, SloClass, Spans
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.model import Place

BATCH = 512
RATIO_BAR = 2.0  # at least half the rate of decoding alone
RATE_BAR = 8000.0  # spans per second on one core
ROUNDS, EACH = 6, 100  # exports in each round: 307,200 spans in all
SHORT_ROUNDS, SHORT_EACH = 2, 20
CONNECTIONS = 4
GROWTH_BAR = 0.1  # over the memory after half of them: by then as many are known by their ids as ever will be
MIB = 1024 * 1024
PLACE = Place("bench", kind="vllm", host="127.0.0.1", port=8000, models=("made/model-7b",), labels={"engine": "vllm"})
SETTINGS = Settings(
    spans=Spans(http="127.0.0.1:0"),
    slo=Slo(classes=(SloClass(name="batch", models=("*-batch",), e2e_seconds=30.0),)),
)


def bodies(count: int, seed: int) -> Iterator[bytes]:
    """Exports of as many spans as OpenTelemetry's batch processor sends at once."""
    draw = random.Random(seed)
    for _ in range(count):
        export = ExportTraceServiceRequest()
        group = export.resource_spans.add()
        for name, value in (
            ("telemetry.sdk.language", "python"),
            ("telemetry.sdk.name", "opentelemetry"),
            ("telemetry.sdk.version", "1.45.2"),
            ("service.instance.id", "00000000-0000-4000-8000-000000012002"),
            ("vllm.instrumenting_module_name", "vllm.llm_engine"),
            ("vllm.process_id", "12002"),
            ("service.name", "made"),
        ):
            group.resource.attributes.append(KeyValue(key=name, value=AnyValue(string_value=value)))
        scope = group.scope_spans.add()
        scope.scope.name = "vllm.tracing.otel"
        scope.spans.extend(_span(draw) for _ in range(BATCH))
        yield export.SerializeToString()


def _span(draw: random.Random) -> Span:
    queue, prefill, output = draw.expovariate(10.0), draw.expovariate(8.0), draw.randint(1, 400)
    decode = output * draw.uniform(0.01, 0.06)
    end = time.time_ns()
    doubles = {
        "time_to_first_token": queue + prefill + 0.01,
        "e2e": queue + prefill + decode + 0.02,
        "time_in_queue": queue,
        "time_in_model_prefill": prefill,
        "time_in_model_decode": decode,
        "time_in_model_inference": prefill + decode,
    }
    values = [KeyValue(key=f"gen_ai.latency.{k}", value=AnyValue(double_value=v)) for k, v in doubles.items()]
    ints = {
        "usage.prompt_tokens": draw.randint(10, 4000),
        "usage.completion_tokens": output,
        "request.max_tokens": 8189,
        "request.n": 1,
    }
    values += [KeyValue(key=f"gen_ai.{k}", value=AnyValue(int_value=v)) for k, v in ints.items()]
    values += [
        KeyValue(key="gen_ai.request.id", value=AnyValue(string_value=f"chatcmpl-{draw.getrandbits(64):016x}")),
        KeyValue(key="gen_ai.request.top_p", value=AnyValue(double_value=1.0)),
        KeyValue(key="gen_ai.request.temperature", value=AnyValue(double_value=0.7)),
    ]
    return Span(
        name="llm_request",
        kind=Span.SPAN_KIND_SERVER,
        trace_id=draw.randbytes(16),
        span_id=draw.randbytes(8),
        start_time_unix_nano=end - int((doubles["e2e"]) * 1e9),
        end_time_unix_nano=end,
        attributes=values,
    )


# -- the sender's process ---------------------------------------------------------------------------------------------
def send(port: int) -> None:
    """Make what a line of stdin asks for (exports, seed), say so, and post it once the next line came; until stdin ends."""
    for line in sys.stdin:
        count, seed = map(int, line.split())
        made = list(bodies(count, seed))
        print("made", flush=True)
        sys.stdin.readline()
        failed: list[str] = []
        threads = [threading.Thread(target=_post, args=(port, made, failed)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(failed[0] if failed else "sent", flush=True)


def _post(port: int, made: list[bytes], failed: list[str]) -> None:
    """Post what is left until nothing is, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not failed:
        try:
            body = made.pop()
        except IndexError:
            return
        while (status := _posted(connection, body)) == http.client.SERVICE_UNAVAILABLE:
            time.sleep(0.05)
        if status != http.client.OK:
            failed.append(f"status {status}")


def _posted(connection: http.client.HTTPConnection, body: bytes) -> int:
    connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


class Sender:
    """The sending process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self, wanted: str) -> None:
        assert self._process.stdout is not None
        heard = self._process.stdout.readline().strip()
        if heard != wanted:
            raise RuntimeError(f"the sender says {heard or 'nothing'}")

    def make(self, count: int, seed: int) -> None:
        """Have exports made, which costs nobody's time that counts."""
        self._say(f"{count} {seed}")
        self._hear("made")

    def send(self) -> None:
        """Have them sent; returns when all were acknowledged."""
        self._say("")
        self._hear("sent")


@contextmanager
def sending(port: int) -> Iterator[Sender]:
    """A sender process to a port."""
    command = [sys.executable, "-m", "bench.spans", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Sender(process)
        process.terminate()


# -- this process -----------------------------------------------------------------------------------------------------
def _decoded(count: int, seed: int) -> float:
    """CPU seconds of decoding as many exports of the same make alone."""
    made = list(bodies(count, seed))
    gc.collect()
    began = time.process_time()
    for body in made:
        decode(body, SETTINGS.spans)
    return time.process_time() - began


@contextmanager
def _pages(receiver: Receiver) -> Iterator[None]:
    """The page's part of the work, once a second, as the exporter's cycle asks for it."""
    over = threading.Event()

    def read() -> None:
        while not over.wait(1.0):
            receiver.shown([PLACE])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(short: bool) -> list[Measured]:
    """Rounds of receiving and of decoding alone, in turn."""
    gc.set_threshold(*GC_THRESHOLDS)  # as in the process that serves
    rounds, each = (SHORT_ROUNDS, SHORT_EACH) if short else (ROUNDS, EACH)
    spans = each * BATCH
    receiver = Receiver(SETTINGS)
    receiver.start()
    ours, alone, walls, sizes = [], [], [], []
    try:
        with sending(int(receiver.address("http").rpartition(":")[2])) as sender:
            sender.make(1, rounds)
            sender.send()
            receiver.shown([PLACE])  # the sender is known from now on
            for number in range(rounds):
                sender.make(each, number)
                gc.collect()
                began, wall = time.process_time(), time.perf_counter()
                with _pages(receiver):
                    sender.send()
                ours.append((time.process_time() - began) / spans)
                walls.append((time.perf_counter() - wall) / spans)
                sizes.append(psutil.Process().memory_info().rss)
                alone.append(_decoded(each // 4, 1000 + number) / (each // 4 * BATCH))
        _check(receiver, BATCH + rounds * spans)
    finally:
        receiver.stop()
    half = rounds // 2 - 1
    cost, decoding = statistics.median(ours), statistics.median(alone)
    print(
        f"spans: {rounds * spans:,} received in exports of {BATCH}; {1e6 * cost:.1f} us of CPU each "
        f"({1 / cost:,.0f}/s on one core; {1 / statistics.median(walls):,.0f}/s by the clock), decoding alone "
        f"{1e6 * decoding:.1f} us ({1 / decoding:,.0f}/s); memory "
        f"{sizes[0] / MIB:.0f} MiB after the first {spans:,}, {sizes[half] / MIB:.0f} after half, {sizes[-1] / MIB:.0f} after all\n"
    )
    return [
        Measured("spans over HTTP, against decoding alone", cost * 1e6, decoding * 1e6, "us CPU", RATIO_BAR),
        Measured(
            f"spans over HTTP, against {RATE_BAR:,.0f} per second on one core",
            cost * 1e6,
            1e6 / RATE_BAR,
            "us CPU",
            1.0,
        ),
        Measured(
            f"memory after {rounds * spans:,} spans, against that after half of them",
            sizes[-1] / MIB,
            sizes[half] / MIB,
            "MiB",
            math.inf if short else 1.0 + GROWTH_BAR,
        ),
    ]


def _check(receiver: Receiver, sent: int) -> None:
    """Every span that was sent is counted, and on the page."""
    samples = receiver.shown([PLACE])["bench"].samples
    told = sum(v for k, v in samples.items() if k.name == "llm_span_requests_total")
    taken = sum(s.value for f in receiver.families() for s in f.samples if s.name == "llmvitals_spans_total")
    if (told, taken) != (sent, sent):
        raise RuntimeError(f"{sent} spans were sent, {taken:g} are counted and {told:g} on the page")


BENCH = Bench("spans", run)

if __name__ == "__main__":
    send(int(sys.argv[1]))
