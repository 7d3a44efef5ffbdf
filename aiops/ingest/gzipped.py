"""Gzip files as a stream that hands out everything before a cut or a damage."""

from __future__ import annotations

import zlib
from typing import IO, Any, cast

_PACKED = 1 << 18


class GzipStream:
    """Reads all members of a gzip file. Unlike `gzip.GzipFile` nothing that was unpacked is lost when the file breaks off."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._member = _decompressor()
        self._input = b""
        self._error: Exception | None = None
        self._started = False

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; empty at the end.

        Raises:
            EOFError: the file breaks off.
            OSError: the file is damaged.
        """
        if self._error is not None:
            raise self._error
        parts: list[bytes] = []
        wanted = size
        while wanted > 0:
            if not self._input:
                self._input = self._packed.read(_PACKED)
                if not self._input:
                    if self._started and not self._member.eof:
                        self._error = EOFError("the compressed file breaks off")
                    break
            try:
                if self._member.eof:
                    if not self._input.lstrip(b"\x00"):
                        self._input = b""
                        continue
                    self._member = _decompressor()
                chunk = self._member.decompress(self._input, wanted)
            except (zlib.error, _isal_error()) as error:
                self._error = OSError(f"the compressed data are damaged: {error}")
                break
            self._started = True
            self._input = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            parts.append(chunk)
            wanted -= len(chunk)
        data = b"".join(parts)
        if not data and self._error is not None:
            raise self._error
        return data


def _decompressor() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj(wbits=31)
    return isal_zlib.decompressobj(wbits=31)


def _isal_error() -> type[Exception]:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.error
    return cast("type[Exception]", isal_zlib.error)
