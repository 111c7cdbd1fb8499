"""What helps when a page could not be fetched. The words of the failure alone decide it: a recording keeps nothing else."""

from __future__ import annotations

_REMEDIES = (
    ("is not asked: its address", "Name the network in access.allow_addresses if it is what is meant."),
    ("is not asked", "Mend that file, which access names; it is read anew for each page."),
    ("its certificate has expired", "Renew the server's certificate; look at this machine's clock too."),
    ("its certificate is not valid yet", "Look at the clocks of both machines."),
    (
        "its certificate is signed by nobody",
        "Name the file of its authority in access.ca_file, or for a command in the variable SSL_CERT_FILE.",
    ),
    ("its certificate is for another name", "Ask it by a name of its certificate, or give it one with this name."),
    ("wants a certificate of ours", "Name one that it accepts in access.cert_file and access.key_file."),
    ("may want a certificate of ours", "Name one that it accepts in access.cert_file and access.key_file."),
    ("does not accept our certificate", "Renew access.cert_file and key_file, or let the server know who signed it."),
    ("does not speak TLS there", "Write http://, or give the port that speaks TLS."),
    ("that is not HTTP/1", "Check host and port; one that speaks TLS wants https://."),
    ("redirects", "Give the final address; where people sign in there, one that machines may ask."),
    ("the page is larger than", "Raise exporter.max_page_bytes, or find the series that swells it."),
    ("the compressed page is damaged", "Ask again; check the proxy in between."),
    ("an encoding that was not asked for", "Let the proxy in front of it pack with gzip, or not at all."),
    ("its headers are longer", "Ask it past whatever adds them, a proxy or a mesh."),
    ("its host name is not known", "Check the name, and that this machine's resolver knows it."),
    ("did not finish its answer", "See what keeps the server busy, or raise exporter.timeout_seconds."),
    ("Too many open files", "Let this process open more files: ulimit -n, or LimitNOFILE of its service."),
)
"""Part of the words, and what helps. The first that fits."""


def remedy_of(words: str) -> str:
    """What helps against a failure that is told in these words."""
    usual = "Check that the server runs and that host and port are right."
    return next((remedy for part, remedy in _REMEDIES if part in words), usual)
