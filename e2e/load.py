"""Drives a load against a server, records its metrics pages, and logs what every client saw.

Run it with the Python of the server's own environment, which has aiohttp: e2e/record.sh does.
The folder it writes is a capture that ``llmvitals triage`` reads; ``requests.jsonl.gz`` in it is the truth to hold the
signals against, ``about.json`` says what was done and what a triage must find, and ``truth.json`` says it for the score.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import secrets
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import spec

if TYPE_CHECKING:
    import aiohttp

SCRAPE_SECONDS = 20.0
SHEDDING = "overloaded-and-shedding"
"""The cause that a verdict of its own stands for."""
GRACE_SECONDS = 1.0
"""Scrapes go on for so long after the last client, so that the end is on a page too."""


class Drive:
    """One run: its clock, its log and its pages."""

    def __init__(self, load: spec.Load, url: str, model: str, folder: Path, pages: str = "") -> None:
        self._load, self._url, self._model, self._folder = load, url, model, folder
        self._pages = pages or url
        self._rng = random.Random(load.seed)
        self._began = time.time()
        self.scrapes: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []

    def _now(self) -> float:
        return time.time() - self._began

    @property
    def _end(self) -> float:
        return self._load.seconds + self._load.drain_s

    async def run(self) -> None:
        """Everything at once, until the load and its drain are over."""
        import aiohttp

        self._began = time.time()
        free = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=free) as clients,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as scraper,
        ):
            await asyncio.gather(self._scrape(scraper), *(self._stream(clients, s) for s in self._load.streams))

    async def _scrape(self, session: aiohttp.ClientSession) -> None:
        """A page every interval; a server that answers late is not asked in a burst afterwards."""
        import aiohttp

        due = 0.0
        while self._now() < self._end + GRACE_SECONDS:
            asked = self._now()
            scrape: dict[str, Any] = {"file": None, "status": None}
            try:
                limit = aiohttp.ClientTimeout(total=SCRAPE_SECONDS)
                async with session.get(f"{self._pages}/metrics", timeout=limit) as answer:
                    body, scrape["status"] = await answer.read(), answer.status
                scrape["file"] = f"{len(self.scrapes):03d}.prom.gz"
                (self._folder / scrape["file"]).write_bytes(gzip.compress(body, 9, mtime=0))
            except (aiohttp.ClientError, TimeoutError) as error:
                scrape["error"] = repr(error)
            arrived = self._now()
            self.scrapes.append({"t": round(self._began + arrived, 3), "took": round(arrived - asked, 4), **scrape})
            due = max(due + self._load.interval_s, self._now() - self._load.interval_s)
            await asyncio.sleep(max(0.0, due - self._now()))

    async def _stream(self, session: aiohttp.ClientSession, stream: spec.Stream) -> None:
        own = random.Random(self._rng.random())
        requests = spec.Requests(stream, self._model, own)
        under_way: set[asyncio.Task[None]] = set()
        try:
            for at in spec.starts(stream, self._load.seconds, own):
                await asyncio.sleep(max(0.0, at - self._now()))
                task = asyncio.create_task(self._ask(session, stream, requests))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            for number in range(stream.concurrency or 0):
                under_way.add(asyncio.create_task(self._client(session, stream, requests, number)))
            await asyncio.sleep(max(0.0, self._end - self._now()))
        finally:
            for task in list(under_way):
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _client(
        self, session: aiohttp.ClientSession, stream: spec.Stream, requests: spec.Requests, number: int
    ) -> None:
        """One client of a closed stream: the next request follows the last answer."""
        await asyncio.sleep(stream.start_s + number * stream.stagger_s)
        stop = min(self._load.seconds, stream.stop_s if stream.stop_s is not None else self._load.seconds)
        while self._now() < stop:
            await self._ask(session, stream, requests)
            await asyncio.sleep(stream.think_s)

    async def _ask(self, session: aiohttp.ClientSession, stream: spec.Stream, requests: spec.Requests) -> None:
        """One request, and again after a failure as often as the stream allows."""
        path, body = requests.next()
        for attempt in range(1 + stream.retries):
            row = await self._attempt(session, stream, path, body)
            row["attempt"] = attempt
            if row.get("status") == 200 and not row.get("client_timeout") and not row.get("exc"):
                return
            await asyncio.sleep(stream.backoff_s)

    async def _attempt(
        self, session: aiohttp.ClientSession, stream: spec.Stream, path: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        import aiohttp

        row: dict[str, Any] = {"stream": stream.name, "t": round(self._now(), 3), "n": stream.n, "chunks": 0}
        self.rows.append(row)
        headers = dict(stream.headers)
        if stream.traced:
            row["trace_id"] = secrets.token_hex(16)  # not by the seed: two runs are never one trace
            headers["traceparent"] = f"00-{row['trace_id']}-{secrets.token_hex(8)}-01"
        began = time.perf_counter()
        try:
            sent = session.post(f"{self._url}{path}", json=body, headers=headers)
            async with asyncio.timeout(stream.timeout_s), sent as answer:
                row["status"] = answer.status
                if answer.status == 200:
                    await self._read(answer, stream, row, began)
                else:
                    row["body"] = (await answer.text())[:400]
        except asyncio.CancelledError:
            row["cancelled_at_end"] = True
            raise
        except TimeoutError:  # before OSError, of which it is one
            row["client_timeout"] = True
        except (aiohttp.ClientError, OSError) as error:
            row["exc"] = repr(error)[:200]
        finally:
            row["e2e"] = round(time.perf_counter() - began, 4)
        return row

    async def _read(
        self, answer: aiohttp.ClientResponse, stream: spec.Stream, row: dict[str, Any], began: float
    ) -> None:
        """The tokens as they arrive: first token, gaps between them, how it ended."""
        leave = None if stream.abort_after_s is None else spec.drawn(stream.abort_after_s, self._rng)
        gaps: list[float] = []
        finish: list[str] = []
        last = 0.0
        async for line in answer.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            now, event = time.perf_counter(), json.loads(line[6:])
            row["usage"] = event.get("usage") or row.get("usage")
            finish += [choice["finish_reason"] for choice in event.get("choices", ()) if choice.get("finish_reason")]
            if not tokens_in(event):
                continue
            if "text_s" not in row and text_in(event):
                row["text_s"] = round(now - began, 4)
            row["chunks"] += 1
            if last:
                gaps.append(now - last)
            else:
                row["ttft"] = round(now - began, 4)
            last = now
            if leave is not None and now - began > leave:
                row["client_aborted"] = True
                answer.close()
                break
        row["finish"] = finish
        if gaps:
            row["itl_mean"], row["itl_max"] = round(sum(gaps) / len(gaps), 5), round(max(gaps), 5)
            made = (row.get("usage") or {}).get("completion_tokens", 0)
            if finish and made > 1:
                row["tpot"] = round(sum(gaps) / (made - 1), 5)

    def write(self) -> None:
        """The index, the log and what the recording is, beside the pages."""
        target = {"name": "vllm-0", "kind": "vllm", "scrapes": self.scrapes}
        _dump(self._folder / "capture.json", {"format": 1, "targets": [target]})
        with gzip.open(self._folder / "requests.jsonl.gz", "wt", encoding="utf-8") as log:
            log.writelines(json.dumps(row) + "\n" for row in self.rows)
        told = msgspec.to_builtins(self._load)
        about = {
            **{key: told[key] for key in ("load", "expected", "server_flags", "drain_s", "interval_s", "streams")},
            "start_unix": self._began,
            "duration_s": self._load.seconds,
            "client_counts": counts(self.rows),
        }
        _dump(self._folder / "about.json", about)
        _dump(self._folder / "truth.json", truth(self._load, self._began))


def truth(load: spec.Load, began: float) -> dict[str, Any]:
    """What ``llmvitals score`` holds a verdict against: the cause that the load brings about, and when it begins to."""
    cause = SHEDDING if load.expected.verdict == "shedding" else load.expected.leading
    return {"causes": [cause], "onset": began + load.onset_s} if cause else {"causes": []}


def tokens_in(event: dict[str, Any]) -> bool:
    """Whether an event of the stream carries tokens: a chat begins with one that only names the role."""
    choices = event.get("choices") or ()
    if not choices:
        return False
    delta = choices[0].get("delta")
    return delta is None or not delta.get("role") or bool(delta.get("content"))


def text_in(event: dict[str, Any]) -> bool:
    """Whether an event shows text: a token that is a part of a character shows none until the rest has come."""
    choice = event["choices"][0]
    return bool(choice.get("text") or (choice.get("delta") or {}).get("content"))


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many requests of each stream ended how."""
    ends = ("client_aborted", "client_timeout", "cancelled_at_end", "exc")
    return dict(
        Counter(
            "/".join([f"{row['stream']}:{row.get('status', 'none')}", *(end for end in ends if row.get(end))])
            for row in rows
        )
    )


def _dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("load", type=Path, help="a file of e2e/loads/")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write, a new one")
    parser.add_argument("--url", required=True, help="the server, like http://127.0.0.1:8000")
    parser.add_argument("--pages", default="", help="the server whose pages are recorded, when it is another one")
    parser.add_argument("--model", default="tiny-llama", help="the model's name there (default: %(default)s)")
    given = parser.parse_args()
    try:
        load = spec.read(given.load)
        given.output.mkdir(parents=True)
    except (ValueError, OSError) as error:
        sys.exit(f"{parser.prog}: {error}")
    drive = Drive(load, given.url.rstrip("/"), given.model, given.output, given.pages.rstrip("/"))
    try:
        asyncio.run(drive.run())
    finally:
        drive.write()
    print(given.output, counts(drive.rows), f"{len(drive.scrapes)} pages")


if __name__ == "__main__":
    main()
