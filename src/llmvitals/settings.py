"""One YAML file holds targets, SLOs and thresholds. Unknown keys are refused with the nearest valid key.

Every threshold of a check is a field here, with its source in the comment, so that nobody hunts for a number.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from llmvitals.errors import SettingsError
from llmvitals.schema import FAMILIES, IDENTITY

Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Between = Annotated[float, msgspec.Meta(gt=0, lt=1)]
AtLeast0 = Annotated[float, msgspec.Meta(ge=0)]
AtLeast0Int = Annotated[int, msgspec.Meta(ge=0)]
AtLeast1 = Annotated[int, msgspec.Meta(ge=1)]


_ADDRESSES = frozenset(
    {"url", "gpu_url", "probe_url", "api_url", "endpoint", "runbook_base", "dashboard_url", "app_url"}
)
"""Keys that hold an address, in which somebody may have written a user and a password."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all settings: immutable, keyword only, unknown keys refused."""

    def __repr__(self) -> str:
        """All fields, addresses without user and password: a traceback or a log may show it."""
        given = ((key, getattr(self, key)) for key in self.__struct_fields__)
        shown = ((key, without_user(v) if key in _ADDRESSES else v) for key, v in given)
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown)})"


def _one_of(key: str, value: str, words: Sequence[str]) -> None:
    if value not in words:
        near = difflib.get_close_matches(value, words, n=1, cutoff=0.0)[0]
        raise ValueError(f"{key} is {', '.join(words[:-1])} or {words[-1]}, perhaps '{near}', not '{value}'")


def _check_labels(names: Iterable[str]) -> None:
    wrong = next((name for name in names if not _LABEL.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"'{wrong}' is no label name")


DEFAULT_CLASS = "default"
"""The class of requests that no other takes."""

UNKNOWN_CLASS = "unknown"
"""The class of requests whose class depends on a model that nobody names."""

PROBE_CLASS = "probe"
"""The class under which it is told what probes took around the engine. They are nobody's request and count nowhere else."""

_OUR_CLASSES = {
    DEFAULT_CLASS: "is that of all other requests",
    UNKNOWN_CLASS: "is that of requests of which nobody knows it",
    PROBE_CLASS: "is that of our own probes",
}


class SloClass(Struct, frozen=True):
    """Requests that were promised something of their own. What is not given here stands in :class:`Slo` itself.

    ``models``, ``tenants``, ``routes``: shell patterns; each list that is given must match, and the first class that does
    takes a request. ``e2e_seconds``: a limit on the whole answer, for work that nobody watches as it comes.
    """

    name: str
    models: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    ttft_seconds: Seconds | None = None
    tpot_seconds: Seconds | None = None
    e2e_seconds: Seconds | None = None
    objective: Between | None = None

    def __post_init__(self) -> None:
        """Refuse a class without a name, and one that would take every request."""
        if not self.name:
            raise ValueError("a class needs a name")
        if self.name in _OUR_CLASSES:
            raise ValueError(f"a class needs a name of its own: '{self.name}' {_OUR_CLASSES[self.name]}")
        if not (self.models or self.tenants or self.routes):
            raise ValueError(f"class '{self.name}' needs models, tenants or routes; slo itself is for all requests")


class Slo(Struct, frozen=True):
    """What users were promised. Defaults: catalogue of causes, section "Terms"."""

    ttft_seconds: Seconds = 2.0
    tpot_seconds: Seconds = 0.05
    objective: Between = 0.95  # share of requests that must meet each threshold
    classes: tuple[SloClass, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two classes of one name."""
        names = [one.name for one in self.classes]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two classes are named '{twice}'")


class Thresholds(Struct, frozen=True):
    """Numbers that checks compare with. Sources: the catalogue, or a fit on recordings of a real vLLM (marked "fit")."""

    kv_lines: tuple[Share, Share] = (0.90, 0.95)  # lines on panels only; no check decides by them
    kv_free_floor: Share = 0.05  # KV is bound when less is free than this or than the next request needs (fit)
    waiting_share: Share = 0.5  # "waiting most of the time": share of pages with waiting > 0 (fit)
    gpu_active: Share = 0.60  # sustained activity under this while work waits = under-used (catalogue)
    preemptions_per_minute: AtLeast0 = 5.0  # scale signal (catalogue)
    preemption_spread: Share = 1 / 3  # share of intervals that saw one: sustained, not a burst (fit)
    preemptions_per_completion: AtLeast0 = (
        0.3  # a pool that is merely full throws out one in ten, one that thrashes each (fit)
    )
    error_ratio: Share = 0.20  # breaker (catalogue)
    draft_acceptance: Share = 0.5  # speculation does not pay below (catalogue)
    vram_margin: Share = 0.05  # framebuffer to be left free beside what the engine reserves (catalogue: 5-10 %)
    resource_limit: Share = (
        0.9  # descriptors, ports, connections: near the limit from this share on (catalogue: "near")
    )
    harm_p: Between = 0.01  # binomial tail below which definite breaches are no chance (fit)
    stalled_seconds: Seconds = 15.0  # nothing moves while work is there: longer than a step of prefill lasts (fit)
    cold_start_seconds: Seconds = 120.0  # a process younger than this has just started (catalogue)
    page_answer_seconds: Seconds = 0.2  # the API process is busy when its own page takes this long as a rule (fit)
    prefix_turnover_seconds: Seconds = 10.0  # a pool filled anew this often keeps no prefix until its next use (fit)
    min_pages: AtLeast1 = 5
    min_seconds: AtLeast0 = 20.0


ROLES = ("both", "prefill", "decode")
"""What an engine may do for a request: all of it, the prompt alone, or the tokens alone."""

LEAST_PROBE_SECONDS = 5.0
"""Probes closer than this would be a load of their own."""

_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
PLACES = frozenset({"node", "namespace", "pod", "container"})
"""Where a target is. A target's own labels may say so on all its families; those that tell it themselves say the same."""

TEAMS = frozenset({"owner"})
"""A label that many give their targets. On the one family that has it, whose processes hold a GPU, its own meaning stays."""

_TOLD = {"window", "signal", "standing", "verdict", "cause", "state", "resource", "setting", "edge"}
_RESERVED = {*IDENTITY, *_TOLD, "le"}
OWN_LABELS = _RESERVED.union(*(family.labels for family in FAMILIES)) - PLACES - TEAMS
"""What the page says on its own families; no target may be labelled so."""


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
TENANT_HEADER = "X-Scope-OrgID"
_SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token", "private-token"}
)
_HEADERS_OF_HTTP = frozenset({
    *("host", "connection", "content-length", "content-type", "content-encoding", "transfer-encoding", "te", "trailer"),
    *("accept-encoding", "upgrade", "expect", "keep-alive", "proxy-authorization", "proxy-connection"),
})  # fmt: skip


class Access(Struct, frozen=True):
    """How a server lets us in. Secrets are named by the files that hold them, so that no settings file, address or log has one.

    ``tenant``: the header ``X-Scope-OrgID`` of Mimir, Cortex and GEM. Files are read anew for each request, for tokens are
    renewed where they lie. ``allow_addresses``: networks that nothing is asked on otherwise, see ``telemetry/reach.py``.
    """

    bearer_token_file: str = ""
    username: str = ""
    password_file: str = ""
    tenant: str = ""
    headers: dict[str, str] = {}  # further ones that are no secret
    header_files: dict[str, str] = {}  # name to the file that holds its value
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    allow_addresses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse halves, two ways at once, headers that are not ours to set, and secrets that would stand in the file."""
        for one, other in (("username", "password_file"), ("cert_file", "key_file")):
            if bool(getattr(self, one)) != bool(getattr(self, other)):
                raise ValueError(f"{one} and {other} go together")
        if self.bearer_token_file and self.username:
            raise ValueError("bearer_token_file and username are two ways to say who asks; give one")
        if ":" in self.username:
            raise ValueError("a username with ':' cannot be sent as basic authentication")
        names = [name.lower() for name in (*self.headers, *self.header_files)]
        sent = [*names, *(["authorization"] if self.bearer_token_file or self.username else [])]
        sent += [TENANT_HEADER.lower()] if self.tenant else []
        for name in (*self.headers, *self.header_files):
            if not _HEADER.fullmatch(name):
                raise ValueError(f"'{name[:40]}' is no header's name")
            if name.lower() in _HEADERS_OF_HTTP:
                raise ValueError(f"the header '{name}' is HTTP's own and cannot be set")
            if sent.count(name.lower()) > 1:
                raise ValueError(f"the header '{name}' is set twice")
        secret = next((name for name in self.headers if name.lower() in _SECRET_HEADERS), None)
        if secret is not None:
            raise ValueError(f"the header '{secret}' holds a secret; name the file that holds it under header_files")
        for what, value in (("tenant", self.tenant), *((f"the header '{k}'", v) for k, v in self.headers.items())):
            if value and not _PRINTABLE.fullmatch(value):
                raise ValueError(f"{what} may hold printable ASCII only")
        for network in self.allow_addresses:
            try:
                ip_network(network)
            except ValueError:
                raise ValueError(
                    f"allow_addresses: '{network[:60]}' is no network; write 169.254.20.0/24 or fe80::/10"
                ) from None


_ACCESS_FILES = ("bearer_token_file", "password_file", "ca_file", "cert_file", "key_file")
"""Keys of :class:`Access` that name a file."""

_SECRET_KEYS = (("url", "access"), ("gpu_url", "gpu_access"), ("probe_url", "access"))
"""Keys that name an address, and those that say how it lets us in: in a settings file an address holds no user or password."""


class Target(Struct, frozen=True):
    """Something to scrape. ``kind``: kind of page or ``auto``; ``gpus``: UUIDs or indices joined by configuration.

    ``access``: how its page lets us in, and its probes where they go to the same server and ``probe_headers_file`` names none.
    ``role``: what an engine does for a request ('' asks its page); ``gateway``: the target that stands in front of it.
    """

    url: str
    name: str = ""
    kind: str = "auto"
    gpus: tuple[str, ...] = ()
    access: Access = Access()
    gpu_url: str = ""  # the page of a GPU exporter that shows these GPUs
    gpu_access: Access = Access()
    tensor_parallel: AtLeast0Int = 0  # GPUs that share each layer of one replica; 0: as its processes or GPUs show
    pod: str = ""  # namespace/name, where the address does not tell
    container: str = ""  # which container of that pod is the engine, where it has several
    labels: dict[str, str] = {}
    role: str = ""
    gateway: str = ""
    probe_seconds: AtLeast0 = 0.0  # a small request of our own this often; 0 sends none
    probe_model: str = ""  # whom it asks; '' asks the only model that the page names
    probe_url: str = ""  # where the API begins, when that is not where the page is
    probe_headers_file: str = ""  # a YAML file of headers for probes, as `Authorization: Bearer KEY`
    spans: dict[str, str] = {}  # resource attributes of the traces that are this target's

    def __post_init__(self) -> None:
        """Refuse a role that is none, and labels that would break the page or stand for something else on it."""
        if self.role and self.role not in ROLES:
            near = difflib.get_close_matches(self.role, ROLES, n=1, cutoff=0.0)[0]
            raise ValueError(f"there is no role '{self.role}', perhaps '{near}'")
        if 0 < self.probe_seconds < LEAST_PROBE_SECONDS:
            raise ValueError(f"probe_seconds is 0 (none) or at least {LEAST_PROBE_SECONDS:g}")
        _check_labels(self.labels)
        for name in self.labels:
            if name in OWN_LABELS:
                raise ValueError(f"the label '{name}' has a meaning of its own on the page")

    @property
    def known_as(self) -> str:
        """The name under which settings and pages speak of it: its own, else host and port, as Prometheus names it."""
        url = self.url.strip()
        try:
            return self.name or urlsplit(url if "://" in url else f"http://{url}").netloc.rpartition("@")[2]
        except ValueError:  # what it is not is said where it is asked
            return url


def without_user(url: str) -> str:
    """The address without a user and a password before its host; what is no URL comes back up to where one could stand."""
    head, slashes, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    if "@" in path:  # a password with a slash of its own
        host, slash, path = "", "", rest
    return f"{head}{slashes}{(host + slash + path).rpartition('@')[2]}" if "@" in rest else url


class Service(Struct, frozen=True):
    """Engines that serve one model together, and what stands in front of them: judged as a whole, beside each engine.

    ``gateways``: from the one that users call to the one nearest to the engines. ``model``: as it is called, where engines or
    gateways have several, or call it by several names.
    """

    name: str
    engines: tuple[str, ...]
    gateways: tuple[str, ...] = ()
    model: str = ""

    def __post_init__(self) -> None:
        """Refuse a service of nothing."""
        if not self.name or not self.engines:
            raise ValueError("a service needs a name and at least one engine")


class Spans(Struct, frozen=True):
    """Where engines and gateways may send their traces (OTLP), and what that may cost. '' listens nowhere.

    ``tenant``, ``route``: the attributes of a gateway's span that say so; the first that is there counts.
    """

    http: str = ""  # host:port; OTLP's own is 4318
    grpc: str = ""  # host:port; OTLP's own is 4317
    tenant: tuple[str, ...] = ("llm.tenant", "enduser.pseudo.id", "tenant.id")
    route: tuple[str, ...] = ("llm.route", "http.route")
    join_seconds: Seconds = 10.0  # an engine's span waits so long for that of its caller
    max_body_bytes: AtLeast1 = 4 * 1024 * 1024  # of one export, unpacked; OTLP senders cut at 4 MiB
    max_pending_bytes: AtLeast1 = 32 * 1024 * 1024  # not worked through yet; beyond it senders are told to wait
    max_open: AtLeast1 = 20_000  # spans that wait for their caller's


OTLP_PROTOCOLS = ("http/protobuf", "grpc")
"""As OpenTelemetry names them (OTEL_EXPORTER_OTLP_PROTOCOL)."""


class Otlp(Struct, frozen=True):
    """Where the page's families are pushed as OTLP metrics; '' pushes nothing.

    ``endpoint``: with its path over HTTP (``http://collector:4318/v1/metrics``), host:port or URL over gRPC. ``headers_file``:
    a YAML file of headers that hold secrets.
    """

    endpoint: str = ""
    protocol: str = "http/protobuf"
    interval_seconds: Seconds = 15.0
    timeout_seconds: Seconds = 10.0
    headers: dict[str, str] = {}
    headers_file: str = ""
    ca_file: str = ""
    gzip: bool = True

    def __post_init__(self) -> None:
        """Refuse a protocol that is none."""
        _one_of("protocol", self.protocol, OTLP_PROTOCOLS)


SWITCH = ("auto", "on", "off")
"""``auto``: where it can be had; ``on``: say so where it cannot."""


class Kubernetes(Struct, frozen=True):
    """Pods of this node: which of them are engines, and what their containers went through.

    ``discover``: pods that carry ``llmvitals.io/scrape: "true"`` become targets, see docs/node.md. ``api_url``: empty takes the
    cluster that this pod is in. ``pod_resources``: the kubelet's socket, which tells whose GPU is whose.
    ``gpu_hosts``: hosts, as shell patterns, that ``llmvitals.io/gpu-url`` may name beside the pod's own address.
    """

    enabled: str = "auto"
    discover: bool = True
    access: Access = Access()  # sent to every pod that is discovered: whoever may annotate a pod then gets the secret
    gpu_hosts: tuple[str, ...] = ()
    selector: str = ""  # label selector that pods must meet besides
    namespaces: tuple[str, ...] = ()  # only these; empty takes all that the service account may list
    api_url: str = ""
    interval_seconds: Seconds = 15.0
    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"


class Node(Struct, frozen=True):
    """What is read of the machine that the exporter runs on, beside the targets' pages.

    ``name``: as Kubernetes calls it; empty takes the variable NODE_NAME, else the host's name. ``gpu_url``: the page of this
    node's GPU exporter, for targets that name none. ``procfs`` and ``cgroups``: where the host's are mounted.
    """

    name: str = ""
    nvml: str = "auto"
    processes: str = "auto"
    gpu_url: str = ""
    gpu_access: Access = Access()
    procfs: str = "/proc"
    cgroups: str = "/sys/fs/cgroup"
    kubernetes: Kubernetes = Kubernetes()

    def __post_init__(self) -> None:
        """Refuse a switch that is none."""
        for key, value in (
            ("nvml", self.nvml),
            ("processes", self.processes),
            ("kubernetes.enabled", self.kubernetes.enabled),
        ):
            _one_of(key, value, SWITCH)


class Source(Struct, frozen=True):
    """A place the app may read from: an exporter (``/triage``) or a PromQL endpoint (Prometheus, Thanos, Mimir and others)."""

    name: str
    url: str
    kind: str = "exporter"  # exporter | prometheus
    access: Access = Access()


def secret_in(url: str) -> str:
    """What an address of a source may not hold, as it would stand in links, on pages and in logs; '' for nothing."""
    try:
        parts = urlsplit(url.strip() if "://" in url else f"http://{url.strip()}")
    except ValueError:  # what it is not is said where it is asked
        return ""
    return "a user or a password" if "@" in parts.netloc else "a query" if parts.query else ""


class App(Struct, frozen=True):
    """Who may open the app, where people sign in (docs/sign-in.md); without any list, everybody whom the provider knows.

    ``groups_claim``: what the provider calls somebody's groups, as ``groups`` or ``realm_access.roles``.
    """

    allowed_emails: tuple[str, ...] = ()
    allowed_domains: tuple[str, ...] = ()
    allowed_groups: tuple[str, ...] = ()
    groups_claim: str = "groups"
    session_seconds: Seconds = 43_200.0  # then somebody signs in anew: a shift


class Exporter(Struct, frozen=True):
    """The exporter's own limits."""

    listen: str = "127.0.0.1:9464"
    web_config: str = ""  # a file in Prometheus' web configuration format: TLS, users, headers
    interval_seconds: Annotated[float, msgspec.Meta(ge=0.05, le=1e9)] = 5.0
    window_seconds: Seconds = 60.0
    timeout_seconds: Seconds = 4.0
    max_page_bytes: AtLeast1 = 16 * 1024 * 1024
    max_samples: AtLeast1 = 50_000
    max_labels: AtLeast1 = 64
    max_label_length: AtLeast1 = 4096


SEVERITIES = ("page", "ticket")
"""``page`` wakes somebody, ``ticket`` waits for office hours."""

_DURATION = re.compile(r"([1-9][0-9]*)(s|m|h|d)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(duration: str) -> float:
    """Seconds of a duration as Prometheus writes it, one number and one unit: ``30s``, ``5m``, ``6h``, ``3d``."""
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise ValueError(f"'{duration}' is no duration; write 30s, 5m, 6h or 3d")
    return float(found[1]) * _UNITS[found[2]]


class Burn(Struct, frozen=True):
    """One row of the alerts on error budgets: tells ``severity`` when the share of requests that missed their promise is at
    least ``burn`` times what may miss, over ``long`` and still over ``short`` (Google SRE Workbook, "Alerting on SLOs").

    ``wait``: how long both must hold.
    """

    severity: str
    burn: Annotated[float, msgspec.Meta(gt=0)]
    long: str
    short: str
    wait: str = "1m"

    def __post_init__(self) -> None:
        """Refuse a severity or a duration that is none, and windows the wrong way round."""
        _one_of("severity", self.severity, SEVERITIES)
        if seconds_of(self.short) >= seconds_of(self.long):
            raise ValueError(f"the short window ({self.short}) must be shorter than the long one ({self.long})")
        seconds_of(self.wait)


class Alerts(Struct, frozen=True):
    """Where the alerts point to, what they keep apart, and when a budget burns too fast.

    ``burns``: an objective of 95 % cannot burn faster than 20, so the Workbook's rows for 99.9 % (14.4 over an hour) would see
    a total outage after 43 minutes; these rows see it in two.
    """

    runbook_base: str = "https://llmvitals.readthedocs.io/runbooks"  # folder of the pages <cause>.md
    dashboard_url: str = (
        ""  # the board in Grafana, as https://grafana.example/d/llmvitals-serving; '' leaves the link out
    )
    app_url: str = ""  # the triage app; '' leaves the link out
    group_by: tuple[str, ...] = ("cluster", "namespace", "model")  # one notification for all that share these labels
    job: str = "llmvitals"  # the scrape job of the exporters, whose own `up` is watched
    least_requests: AtLeast1 = 20  # fewer in a window say nothing of its share
    burns: tuple[Burn, ...] = (
        Burn(severity="page", burn=6.0, long="5m", short="1m"),
        Burn(severity="page", burn=3.0, long="1h", short="5m"),
        Burn(severity="ticket", burn=2.0, long="6h", short="30m", wait="15m"),
        Burn(severity="ticket", burn=1.0, long="3d", short="6h", wait="1h"),
    )

    def __post_init__(self) -> None:
        """Refuse labels that are none, and burns that nobody could tell apart."""
        _check_labels(self.group_by)
        rows = [(row.severity, seconds_of(row.long)) for row in self.burns]
        twice = next((row for row in self.burns if rows.count((row.severity, seconds_of(row.long))) > 1), None)
        if twice is not None:
            raise ValueError(f"two burns of severity {twice.severity} are over {twice.long}; keep the faster one")


class Settings(Struct, frozen=True):
    """The whole file."""

    targets: tuple[Target, ...] = ()
    services: tuple[Service, ...] = ()
    slo: Slo = Slo()
    thresholds: Thresholds = Thresholds()
    exporter: Exporter = Exporter()
    alerts: Alerts = Alerts()
    node: Node = Node()
    spans: Spans = Spans()
    otlp: Otlp = Otlp()
    sources: tuple[Source, ...] = ()
    app: App = App()


_KINDS: Mapping[str, str] = {
    "array": "a list, like [a, b]",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "keys below it",
    "str": "text",
}
"""What YAML can hold, for people; the names are those of messages of msgspec."""

_EXPECTED = re.compile(r"(?<=xpected )\w+|(?<=, got )\w+")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]+)`(?: - at `(?P<at>[^`]+)`)?")


def _known_keys(kind: type[msgspec.Struct], path: str) -> list[str]:
    """The valid keys at a place like ``$.slo`` or ``$.targets[...]``."""
    current: Any = kind
    for part in re.findall(r"\.([A-Za-z_]+)", path):
        hint = next((f.type for f in msgspec.structs.fields(current) if f.encode_name == part), None)
        args = getattr(hint, "__args__", ())
        current = next((a for a in args if isinstance(a, type) and issubclass(a, msgspec.Struct)), hint)
    return [f.encode_name for f in msgspec.structs.fields(current)]


T = TypeVar("T", bound=msgspec.Struct)


def convert(data: object, kind: type[T], *, place: str, page: str) -> T:
    """Parsed YAML as a ``kind``. Raises :class:`SettingsError` naming the key, the place and the nearest key.

    ``page``: the documentation that says what is valid there.
    """
    try:
        return msgspec.convert(data if data is not None else {}, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        found = _UNKNOWN.search(message)
        if found is None:
            what, _, at = message.partition(" - at ")
            key = at.strip("`").removeprefix("$").removeprefix(".")
            plain = _EXPECTED.sub(lambda kind: _KINDS.get(kind[0], kind[0]), what.replace("`", ""))
            thing = f"{key}: {plain[0].lower()}{plain[1:]}" if key else plain
            quotes = "Put it in quotes" if "xpected text, got" in plain else "Correct the value"
            raise SettingsError(thing, place=place, remedy=f"{quotes}; see {page}.") from None
        at = found["at"] or "$"
        keys = _known_keys(kind, at)
        near = difflib.get_close_matches(found["key"], keys, n=1, cutoff=0.0)
        remedy = f"Did you mean '{near[0]}'?" if near else "Remove it."
        section = at.removeprefix("$").removeprefix(".") or "the top level"
        raise SettingsError(f"unknown key '{found['key']}' in {section}", place=place, remedy=remedy) from None


def read_yaml(path: Path | str) -> object:
    """The parsed content of a YAML file. Raises :class:`SettingsError` when it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot be read ({error.strerror})", place=str(path), remedy="Check the path and its permissions."
        ) from None
    except UnicodeDecodeError:
        raise SettingsError("is not text in UTF-8", place=str(path), remedy="Check that this is the file.") from None
    try:
        parsed: object = yaml.safe_load(text)
    except (ValueError, RecursionError):  # a date or number that YAML recognises and that cannot be; endless nesting
        raise SettingsError("is not valid YAML", place=str(path), remedy="Put odd values into quotes.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise SettingsError("is not valid YAML", place=where, remedy="Correct the syntax there.") from None
    return parsed


def decode(data: object, *, place: str) -> Settings:
    """Parsed YAML as settings. Raises :class:`SettingsError` naming the key, the place and the nearest key."""
    settings = convert(_worded(data), Settings, place=place, page="docs/settings.md")
    check_services(settings.targets, settings.services, place=place)
    for source in settings.sources:
        if told := secret_in(source.url):
            thing = f"sources: the url of '{source.name}' holds {told}"
            raise SettingsError(
                thing, place=place, remedy="Name secrets under access, in files: username, password_file."
            )
    _check_addresses(settings, place)
    names = [source.name for source in settings.sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        remedy = "Give each a name of its own, for links know sources by it."
        raise SettingsError(f"sources: two are named '{twice}'", place=place, remedy=remedy)
    return settings


def _check_addresses(settings: Settings, place: str) -> None:
    """Refuse users and passwords in addresses, as these stand in logs and process lists."""
    parts: list[tuple[str, Target | Node]] = [(f"targets: of '{one.known_as}'", one) for one in settings.targets]
    for what, part in (*parts, ("node:", settings.node)):
        for key, access in _SECRET_KEYS:
            if secret_in(getattr(part, key, "").partition("?")[0]):  # a query may name a model
                remedy = f"Name them under {access}: username, and password_file, a file that holds the password."
                raise SettingsError(f"{what} the {key} holds a user or a password", place=place, remedy=remedy)


_SWITCHES = ("nvml", "processes", "enabled")


def _worded(data: object) -> object:
    """The data with its switches as words: a YAML parser reads ``on`` and ``off`` without quotes as true and false."""
    if not isinstance(data, dict) or not isinstance(node := data.get("node"), dict):
        return data
    below = node.get("kubernetes")
    return {**data, "node": {**_spelt(node), **({"kubernetes": _spelt(below)} if isinstance(below, dict) else {})}}


def _spelt(section: dict[str, object]) -> dict[str, object]:
    switches = {key: section[key] for key in _SWITCHES if isinstance(section.get(key), bool)}
    return {**section, **{key: "on" if value else "off" for key, value in switches.items()}}


def check_services(targets: Sequence[Target], services: Sequence[Service], *, place: str) -> None:
    """Whether every name stands for a target, and every service has one of its own.

    Raises :class:`SettingsError` with the nearest name that does.
    """
    known = [target.known_as for target in targets]
    for target in targets:
        _named(f"targets, gateway of '{target.known_as}'", filter(None, [target.gateway]), known, place)
        if target.gateway == target.known_as:
            thing = f"targets: '{target.gateway}' is named as the gateway in front of itself"
            raise SettingsError(thing, place=place, remedy="Name the target that stands in front of it.")
    taken = set(known)
    for service in services:
        _named(f"services, engines of '{service.name}'", service.engines, known, place)
        _named(f"services, gateways of '{service.name}'", service.gateways, known, place)
        both = next((name for name in service.engines if name in service.gateways), "")
        if both:
            thing = f"services: '{both}' is an engine and a gateway of '{service.name}'"
            raise SettingsError(thing, place=place, remedy="Name it once, as what it is.")
        if service.name in taken:
            thing = f"services: the name '{service.name}' is taken"
            raise SettingsError(thing, place=place, remedy="Give each target and each service a name of its own.")
        taken.add(service.name)


def _named(what: str, names: Iterable[str], known: Sequence[str], place: str) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            remedy = f"Did you mean '{near[0]}'?" if near else "Add it to the targets."
            raise SettingsError(f"{what}: there is no target '{name}'", place=place, remedy=remedy)


_FILES = (("exporter", "web_config"), ("otlp", "headers_file"), ("otlp", "ca_file"))
"""Sections and their keys that name a file, meant from the settings file's own folder."""


def load(path: Path | str | None) -> Settings:
    """Read a settings file; None gives the defaults. A relative file that it names is meant from its own folder."""
    if path is None:
        return Settings()
    settings, folder = decode(read_yaml(path), place=str(path)), Path(path).parent
    for section, key in _FILES:
        part = _from(folder, getattr(settings, section), key)
        settings = msgspec.structs.replace(settings, **{section: part})
    targets = tuple(
        _with_access(folder, _from(folder, target, "probe_headers_file"), "access", "gpu_access")
        for target in settings.targets
    )
    sources = tuple(_with_access(folder, one, "access") for one in settings.sources)
    node = _with_access(folder, settings.node, "gpu_access")
    node = msgspec.structs.replace(node, kubernetes=_with_access(folder, node.kubernetes, "access"))
    return msgspec.structs.replace(settings, targets=targets, sources=sources, node=node)


def _with_access(folder: Path, part: T, *keys: str) -> T:
    """The part, the files of its accesses meant from a folder."""
    return msgspec.structs.replace(part, **{key: _access_from(folder, getattr(part, key)) for key in keys})


def _access_from(folder: Path, access: Access) -> Access:
    """The same with whole paths: another process may read them, from a folder of its own."""
    given = {key: getattr(access, key) for key in _ACCESS_FILES}
    paths = {key: str((folder / name).absolute()) for key, name in given.items() if name}
    headers = {name: str((folder / file).absolute()) for name, file in access.header_files.items()}
    return msgspec.structs.replace(access, **paths, header_files=headers)


def _from(folder: Path, part: T, key: str) -> T:
    """The part with the file that it names under this key, if it names one, meant from a folder."""
    name = getattr(part, key)
    return msgspec.structs.replace(part, **{key: str(folder / name)}) if name else part
