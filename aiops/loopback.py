"""Whether an address is of this machine: the one rule for the dashboard, Slack and Prometheus."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
