"""Which promise holds for which requests."""

from __future__ import annotations

import pytest

from llmvitals.errors import SettingsError
from llmvitals.settings import Settings, decode, load
from llmvitals.slo import Promise, promise_of, promises, slo_of_model

FILE = {
    "slo": {
        "ttft_seconds": 2.0,
        "classes": [
            {"name": "vip", "tenants": ["gold", "gold-*"], "ttft_seconds": 0.3, "objective": 0.99},
            {"name": "rag", "models": ["big*"], "routes": ["/search*"], "ttft_seconds": 4.0},
            {"name": "big", "models": ["big*"], "tpot_seconds": 0.2},
            {"name": "batch", "routes": ["/batch"], "e2e_seconds": 300.0},
        ],
    }
}


def settings(file: dict = FILE) -> Settings:
    return decode(file, place="llmvitals.yaml")


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({}, "default"),
        ({"model": "small", "route": "/chat"}, "default"),
        ({"tenant": "gold"}, "vip"),
        ({"tenant": "gold-7", "model": "big-1", "route": "/search"}, "vip"),  # the first that matches
        ({"model": "big-1", "route": "/search/x"}, "rag"),
        ({"model": "big-1", "route": "/chat"}, "big"),  # rag asks for a route as well
        ({"model": "small", "route": "/search"}, "default"),
        ({"model": "BIG-1"}, "default"),  # names are taken as they are written
        ({"route": "/batch"}, "batch"),
    ],
)
def test_the_first_class_whose_every_list_matches_takes_a_request(asked: dict, name: str):
    assert promise_of(settings().slo, **asked).name == name


def test_what_a_class_does_not_say_is_what_all_were_promised():
    slo = settings().slo
    assert promise_of(slo, route="/batch") == Promise("batch", 2.0, 0.05, 300.0, 0.95)
    assert promise_of(slo, tenant="gold") == Promise("vip", 0.3, 0.05, None, 0.99)
    assert promise_of(slo, route="/batch").thresholds == (("ttft", 2.0), ("tpot", 0.05), ("e2e", 300.0))
    assert [one.name for one in promises(slo)] == ["vip", "rag", "big", "batch", "default"]


def test_a_page_is_judged_by_the_class_that_takes_all_requests_of_its_model():
    slo = settings().slo
    judged = slo_of_model(slo, "big-2")  # rag takes some of its requests only
    assert (judged.ttft_seconds, judged.tpot_seconds, judged.objective) == (2.0, 0.2, 0.95)
    assert slo_of_model(slo, "small") == slo
    assert slo_of_model(slo, "") == slo


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ([{"name": "a"}], "needs models, tenants or routes"),
        ([{"name": "", "models": ["m"]}], "needs a name"),
        ([{"name": "default", "models": ["m"]}], "that of all other requests"),
        ([{"name": "a", "models": ["m"]}, {"name": "a", "routes": ["r"]}], "two classes are named 'a'"),
        ([{"name": "a", "model": ["m"]}], "Did you mean 'models'"),
        ([{"name": "a", "models": ["m"], "ttft_seconds": 0}], "slo.classes"),
    ],
)
def test_classes_that_cannot_be_are_refused_with_the_reason(classes: list, told: str):
    with pytest.raises(SettingsError, match=r"llmvitals\.yaml") as refused:
        settings({"slo": {"classes": classes}})
    assert told in str(refused.value)


def test_files_that_settings_name_are_meant_from_their_folder(tmp_path):
    file = tmp_path / "llmvitals.yaml"
    file.write_text("otlp: {endpoint: 'http://c:4318/v1/metrics', headers_file: secrets.yaml, ca_file: /etc/ca.pem}\n")
    found = load(file).otlp
    assert found.headers_file == str(tmp_path / "secrets.yaml")
    assert found.ca_file == "/etc/ca.pem"


def test_a_protocol_that_otlp_has_not_is_refused_with_the_nearest():
    with pytest.raises(SettingsError, match="perhaps 'http/protobuf'"):
        settings({"otlp": {"endpoint": "http://c:4318", "protocol": "http"}})
