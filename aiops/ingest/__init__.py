"""Files → Case: find and unpack, sniff, parse documents, scan logs, join identities, settle clocks."""

from aiops.ingest.case import open_case

__all__ = ["open_case"]
