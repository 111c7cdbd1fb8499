"""What brings the boards to a Grafana: a provisioning file, and for Kubernetes a base with a ConfigMap for each board.

Keys are those of Grafana's documentation ("Provision Grafana", dashboards) and of Kustomize's ``configMapGenerator``; label and
annotation are the defaults of the dashboard sidecar in Grafana's chart.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from llmvitals.dashboards import grafana10
from llmvitals.dashboards.raw import boards as raw

ROOT = "dashboards"
FOLDER = "LLM serving"
"""The folder in Grafana."""

BASES: tuple[tuple[str, str, str], ...] = (
    (ROOT, FOLDER, "for Grafana 11.1 and later"),
    (f"{ROOT}/{grafana10.FOLDER}", FOLDER, "that Grafana 10 reads in a form of its own (apply the folder above first)"),
    (raw.FOLDER, f"{FOLDER}, raw series", "for a Prometheus that scrapes engines themselves"),
)
"""Folders of boards that are each a base: where, the folder in Grafana, and who takes it."""

PROVISIONING = f"{ROOT}/provisioning/llmvitals.yaml"

_PROVIDER = f"""\
# Tells Grafana to read the boards from a folder of its own disk.
# Put this file into the folder provisioning/dashboards of Grafana's configuration (/etc/grafana/provisioning/dashboards),
# and the boards to where `path` says.
apiVersion: 1
providers:
  - name: llmvitals
    orgId: 1
    type: file
    folder: {FOLDER}
    # Boards that are no longer in the folder go from Grafana as well.
    disableDeletion: false
    # What is changed in the browser cannot be saved over the files: save a copy, or make the boards with your own settings.
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      # On Grafana's machine, or in its container. Grafana reads folders inside it as well: put the boards of ONE kind here,
      # either dashboards/*.json, or those of grafana-10/ or raw/. It may be a variable of Grafana's environment: $LLM_BOARDS.
      path: /var/lib/grafana/dashboards/llmvitals
      foldersFromFilesStructure: false
"""


def files(boards: Iterable[str]) -> dict[str, str]:
    """The provisioning file and the bases. ``boards``: paths in the project of all boards."""
    several = tuple(boards)
    found = {PROVISIONING: _PROVIDER}
    for folder, shown, who in BASES:
        mine = sorted(path for path in several if str(PurePosixPath(path).parent) == folder)
        if mine:
            found[f"{folder}/kustomization.yaml"] = _base(mine, shown, who)
    return found


def _base(boards: Iterable[str], folder: str, who: str) -> str:
    """One ConfigMap for each board: all in one would pass the 1 MiB that an object may have.

    The key is the name of the file in the sidecar's folder, which every ConfigMap of the cluster shares.
    """
    lines = [
        f"# The boards {who}.",
        "# A ConfigMap each, for the dashboard sidecar of Grafana's chart: apply this folder, or name it as a base (resources:)",
        "# of your own kustomization and set `namespace` there.",
        "# With --server-side: kubectl's other way keeps the whole object in an annotation, which may have 256 KiB at most.",
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        "generatorOptions:",
        "  disableNameSuffixHash: true # a board keeps its ConfigMap when it changes",
        "  labels:",
        '    grafana_dashboard: "1" # sidecar.dashboards.label of the chart',
        "  annotations:",
        f"    grafana_folder: {folder} # read where sidecar.dashboards.folderAnnotation is grafana_folder",
        "configMapGenerator:",
    ]
    for path in boards:
        name = PurePosixPath(path).name
        called = f"llmvitals-{'raw-' if folder != FOLDER else ''}{name.removesuffix('.json')}"
        lines += [f"  - name: {called}", "    files:", f"      - {called}.json={name}"]
    return "\n".join(lines) + "\n"
