"""What helps when a page could not be fetched. The words of the failure alone decide it: a recording keeps nothing else."""

from __future__ import annotations

_REMEDIES = (
    ("is not asked: its address", "Name the network in access.allow_addresses if it is what is meant."),
    ("is not asked", "Mend that file, which access names; it is read anew for each page."),
    ("its certificate has expired", "Renew the server's certificate; look at this machine's clock too."),
    ("its certificate is not valid yet", "Look at the clocks of both machines."),
    ("its certificate is signed by nobody", "Name the file of its authority in access.ca_file."),
    ("its certificate is for another name", "Ask it by a name of its certificate, or give it one with this name."),
    ("wants a certificate of ours", "Name one that it accepts in access.cert_file and access.key_file."),
    ("may want a certificate of ours", "Name one that it accepts in access.cert_file and access.key_file."),
    ("does not accept our certificate", "Renew access.cert_file and key_file, or let the server know who signed it."),
    ("does not speak TLS there", "Write http://, or give the port that speaks TLS."),
    ("redirects", "Give the final address; where people sign in there, one that machines may ask."),
)


def remedy_of(words: str) -> str:
    """What helps against a failure that is told in these words."""
    usual = "Check that the server runs and that host and port are right."
    return next((remedy for start, remedy in _REMEDIES if start in words), usual)
