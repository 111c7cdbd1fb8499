"""Clients of a gateway: so many calls, four at a time, every other one streamed; and what they got."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import requests


def drive(url: str, calls: int, *, model: str, key: str) -> Counter[str]:
    """Answers by HTTP status; ``none`` where there was no answer."""

    def one(number: int) -> str:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": f"call {number} " + "word " * 20}],
            "max_tokens": 16,
            "stream": number % 2 == 0,
        }
        try:
            answer = requests.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=30)
        except requests.RequestException:
            return "none"
        return str(answer.status_code)

    with ThreadPoolExecutor(4) as pool:
        return Counter(pool.map(one, range(calls)))
