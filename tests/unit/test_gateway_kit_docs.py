"""The page of the gateway kit: its gateway works as it stands there, and each family is told once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx

from llmvitals.telemetry.gateways.contract import CONTRACT
from support.asgi import STREAMED, Client, asked, piece, usage

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "gateway-kit.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.M | re.S)
EXAMPLE = ROOT / "examples" / "gateway"


def test_the_gateway_on_the_page_passes_calls_on_and_shows_them():
    made: dict[str, object] = {}
    exec(CODE, made)

    async def pieces():
        yield piece()
        yield usage(7, 1)

    engine = httpx.MockTransport(lambda _: httpx.Response(200, headers=STREAMED, content=pieces()))
    made["transport"]._inner = engine
    client = Client(asked(), headers=[(b"x-tenant", b"search")])
    asyncio.run(client.call(made["app"]))
    assert client.status == 200
    assert client.answer == piece() + usage(7, 1)
    page = made["kit"].page.render()[0].decode()
    assert re.search(r'^llm_gateway_tokens_total\{.*tenant="search"\} 8.0$', page, flags=re.M)


def test_each_family_is_counted_by_itself_or_told_and_no_other_is_named():
    cells = [line.split(" | ")[-1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = re.findall(r"`([a-z]+(?:_[a-z]+)*)(?:\{[^}]*\})?`", "\n".join(cells))
    families = {family.name.removeprefix("llm_gateway_") for family in CONTRACT}
    assert set(named) == families


def test_the_settings_of_the_example_are_those_that_it_takes():
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    code = (EXAMPLE / "gateway.py").read_text(encoding="utf-8")
    config = code.partition("class Config")[2].partition("@classmethod")[0]
    fields = re.findall(r"^    (\w+): \w+ = ", config, flags=re.M)
    assert {f"GATEWAY_{name.upper()}" for name in fields} == set(re.findall(r"GATEWAY_[A-Z]+", readme))
