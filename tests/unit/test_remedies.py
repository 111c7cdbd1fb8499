"""What the walk is blind to says how to see it."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES
from llmvitals.settings import Settings
from llmvitals.triage.judge import WHOLE
from llmvitals.triage.remedies import NOTHING, remedy
from llmvitals.triage.walk import diagnose
from support.situations import SITUATIONS

WINDOWS = {s.cause: next(iter(s.shown.values())) for s in SITUATIONS}


@pytest.mark.parametrize("cause", WINDOWS)
def test_every_blind_spot_has_a_remedy(cause):
    for spot in diagnose(WINDOWS[cause](), Settings()).blind:
        assert spot.remedy.endswith(".")


@pytest.mark.parametrize("series", WHOLE)
def test_telemetry_that_is_not_joined_says_how_to_join_it(series):
    assert remedy(series, "unsupported: it is not joined") not in {"", NOTHING}


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
@pytest.mark.parametrize("kind", [GapKind.MISSING, GapKind.TOO_SHORT, GapKind.STALE, GapKind.CENSORED])
def test_what_could_be_there_never_ends_in_nothing(family, kind):
    assert remedy(family, f"{kind}: for some reason") != NOTHING


def test_a_version_that_is_too_old_says_which_one_shows_it():
    why = "unsupported: vLLM 0.11 does not show it (vllm:admission_rejections: V1 0.32.0+, not the Rust front end)"
    assert remedy("llm_requests_rejected_total", why) == "vLLM shows it from 0.32.0 on: upgrade."


def test_a_flag_that_is_off_is_named_and_nothing_is_called_missing():
    told = remedy("llm_lora_slots", "unsupported: it shows only with --enable-lora")
    assert "--enable-lora" in told
    assert "nothing is missing" in told


def test_profiling_counters_are_told_by_their_field_where_a_gpu_page_lacks_them():
    assert "DCGM_FI_PROF_SM_ACTIVE" in remedy("llm_gpu_sm_active_ratio", "missing: its field is not in the list")
    assert "gpu_url" in remedy("llm_gpu_sm_active_ratio", "unsupported: it shows only with a GPU page")


def test_what_an_engine_cannot_show_is_said_plainly():
    assert remedy("llm_max_model_tokens", "unsupported: cache_config_info does not say it") == NOTHING
