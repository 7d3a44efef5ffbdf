"""Plain values out of a pickle, without its virtual machine: nothing in the file can name, import or call anything.

Implements the opcodes that carry dicts, lists, tuples, strings, bytes, numbers, booleans and ``None``
(`pickletools`, protocols 2 to 5). All others are refused, whatever they would do.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 64 << 20
MAX_CONTAINERS = 4_000_000
MAX_STACK = 4_000_000
MAX_DEPTH = 64
_LONG = 64
"""Bytes of the longest integer."""
_KEYS = frozenset({str, int, bool, bytes, float, type(None)})
"""Types of keys: a deeply nested tuple would overflow the C stack when hashed."""


class Refused(ValueError):
    """The pickle holds more than plain values, is damaged, or is too large; ``offset`` is where."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class _Ends(Exception):
    pass


class _Bad(Exception):
    pass


@dataclass(slots=True)
class Loaded:
    """The value, whether the file was whole, and where each dict begins."""

    value: Any
    complete: bool = True
    ends_at: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    """``id`` of a dict within ``value`` -> byte offset."""


def looks_like_pickle(head: bytes) -> bool:
    """True if the bytes begin as a pickle of protocol 2 or later does."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5 and head[2] in _OPENERS


def load_values(data: bytes) -> Loaded:
    """Read one pickle. Of a file whose end is missing all that stands before is kept (``complete`` is false).

    Raises:
        Refused: an opcode that is none of plain values, damage, or more than the bounds of this module.
    """
    if len(data) > MAX_BYTES:
        raise Refused(0, f"{len(data)} bytes are more than a dump may have ({MAX_BYTES})")
    return _Machine(data).run()


class _Machine:
    __slots__ = ("at", "containers", "data", "marks", "memo", "stack", "starts")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.starts: dict[int, int] = {}
        self.containers = 0

    def run(self) -> Loaded:
        try:
            if not self._whole():
                return self._salvage()
        except IndexError:
            raise Refused(self.at, "damaged: a value is missing") from None
        except KeyError:
            raise Refused(self.at, "damaged: refers to a value that is not there") from None
        except (_Bad, struct.error, UnicodeDecodeError) as error:
            raise Refused(self.at, f"damaged: {error}") from None
        if len(self.stack) != 1 or self.marks:
            raise Refused(self.at, "damaged: it does not end with one value")
        return Loaded(self.stack[0], True, self.at, self.starts)

    def _whole(self) -> bool:
        """False if the bytes end before the value does."""
        try:
            self._steps()
        except _Ends:
            return False
        except IndexError:
            if self.at + 3 <= len(self.data):  # the decided opcodes read at most two bytes behind them
                raise
            return False
        return True

    def _steps(self) -> None:
        """The opcodes that make nine tenths of a dump are decided here, the others by table."""
        data, stack, marks, memo = self.data, self.stack, self.marks, self.memo
        push = stack.append
        at = 0
        while True:
            self.at = at
            op = data[at]
            if op == 0x68:  # BINGET
                push(memo[data[at + 1]])
                at += 2
            elif op == 0x28:  # MARK
                if len(marks) >= MAX_DEPTH:
                    raise _Bad("deeper than a dump may be")
                marks.append(len(stack))
                at += 1
            elif op == 0x4B:  # BININT1
                push(data[at + 1])
                at += 2
            elif op == 0x4D:  # BININT2
                push(data[at + 1] | data[at + 2] << 8)
                at += 3
            elif op == 0x71:  # BINPUT
                memo[data[at + 1]] = stack[-1]
                at += 2
            elif op == 0x5D:  # EMPTY_LIST
                self.containers += 1
                if self.containers > MAX_CONTAINERS:
                    raise _Bad("more values than a dump may have")
                push([])
                at += 1
            elif op == 0x65:  # APPENDS
                self._appends()
                at += 1
            elif op == 0x2E:  # STOP
                return
            else:
                handler = _TABLE.get(op)
                if handler is None:
                    raise Refused(at, _refusal(op))
                at = handler(self, at + 1)

    def _below_mark(self) -> list[Any]:
        if not self.marks:
            raise _Bad("an end without a beginning")
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def _appends(self) -> None:
        items = self._below_mark()
        target = self.stack[-1]
        if type(target) is not list:
            raise _Bad("items for something that is no list")
        target.extend(items)

    def take(self, at: int, size: int) -> bytes:
        """``size`` bytes from ``at`` on."""
        part = self.data[at : at + size]
        if size < 0 or len(part) < size:
            raise _Ends
        return part

    def push(self, value: Any, at: int) -> int:
        """Put a value down and go on at ``at``."""
        if len(self.stack) > MAX_STACK or self.containers > MAX_CONTAINERS:
            raise _Bad("more values than a dump may have")
        self.stack.append(value)
        return at

    def _salvage(self) -> Loaded:
        """Close what is open, innermost first; a key without value and a list's last, unfinished item stay out."""
        ends_at = len(self.data)
        if not self.stack:
            raise Refused(ends_at, "ends before its first value")
        while self.marks:
            items = self._below_mark()
            target = self.stack[-1] if self.stack else None
            if type(target) is list:
                target.extend(items)
            elif type(target) is dict:
                _fill(target, items[: len(items) // 2 * 2])
        return Loaded(self.stack[0], False, ends_at, self.starts)


def _fill(target: dict[Any, Any], items: list[Any]) -> None:
    keys = items[::2]
    if not set(map(type, keys)) <= _KEYS:
        raise _Bad("a key that is no plain value")
    target.update(zip(keys, items[1::2], strict=True))


def _setitems(m: _Machine, at: int) -> int:
    items = m._below_mark()
    target = m.stack[-1]
    if type(target) is not dict or len(items) % 2:
        raise _Bad("keys and values for something that is no dict")
    _fill(target, items)
    return at


def _setitem(m: _Machine, at: int) -> int:
    value, key = m.stack.pop(), m.stack.pop()
    if type(m.stack[-1]) is not dict:
        raise _Bad("a key for something that is no dict")
    _fill(m.stack[-1], [key, value])
    return at


def _append(m: _Machine, at: int) -> int:
    value = m.stack.pop()
    if type(m.stack[-1]) is not list:
        raise _Bad("an item for something that is no list")
    m.stack[-1].append(value)
    return at


def _empty_dict(m: _Machine, at: int) -> int:
    value: dict[Any, Any] = {}
    m.starts[id(value)] = at - 1
    m.containers += 1
    return m.push(value, at)


def _tuple(m: _Machine, at: int) -> int:
    return m.push(tuple(m._below_mark()), at)


def _tuple_of(size: int) -> Callable[[_Machine, int], int]:
    def make(m: _Machine, at: int) -> int:
        if len(m.stack) < size:
            raise _Bad("a tuple without its values")
        items = tuple(m.stack[-size:])
        del m.stack[-size:]
        m.containers += 1
        return m.push(items, at)

    return make


def _constant(value: Any) -> Callable[[_Machine, int], int]:
    return lambda m, at: m.push(value, at)


def _number(form: str) -> Callable[[_Machine, int], int]:
    layout = struct.Struct(form)
    return lambda m, at: m.push(layout.unpack(m.take(at, layout.size))[0], at + layout.size)


def _long(width: int) -> Callable[[_Machine, int], int]:
    def read(m: _Machine, at: int) -> int:
        size = int.from_bytes(m.take(at, width), "little")
        if size > _LONG:
            raise _Bad("an integer longer than any counter")
        return m.push(int.from_bytes(m.take(at + width, size), "little", signed=True), at + width + size)

    return read


def _string(width: int, *, text: bool) -> Callable[[_Machine, int], int]:
    def read(m: _Machine, at: int) -> int:
        size = int.from_bytes(m.take(at, width), "little")
        raw = m.take(at + width, size)
        return m.push(raw.decode("utf-8", "surrogatepass") if text else raw, at + width + size)

    return read


def _put(width: int) -> Callable[[_Machine, int], int]:
    def read(m: _Machine, at: int) -> int:
        m.memo[int.from_bytes(m.take(at, width), "little")] = m.stack[-1]
        return at + width

    return read


def _get(width: int) -> Callable[[_Machine, int], int]:
    return lambda m, at: m.push(m.memo[int.from_bytes(m.take(at, width), "little")], at + width)


def _memoize(m: _Machine, at: int) -> int:
    m.memo[len(m.memo)] = m.stack[-1]
    return at


def _skip(width: int) -> Callable[[_Machine, int], int]:
    def read(m: _Machine, at: int) -> int:
        m.take(at, width)
        return at + width

    return read


_TABLE: dict[int, Callable[[_Machine, int], int]] = {
    ord("}"): _empty_dict,
    ord("u"): _setitems,
    ord("s"): _setitem,
    ord("a"): _append,
    ord(")"): _constant(()),
    ord("t"): _tuple,
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord("J"): _number("<i"),
    ord("G"): _number(">d"),
    0x8A: _long(1),
    0x8B: _long(4),
    ord("X"): _string(4, text=True),
    0x8C: _string(1, text=True),
    0x8D: _string(8, text=True),
    ord("U"): _string(1, text=True),
    ord("T"): _string(4, text=True),
    ord("C"): _string(1, text=False),
    ord("B"): _string(4, text=False),
    0x8E: _string(8, text=False),
    ord("r"): _put(4),
    ord("j"): _get(4),
    0x94: _memoize,
    0x80: _skip(1),
    0x95: _skip(8),
}
_OPENERS = frozenset({*_TABLE, 0x5D, 0x28, 0x4B, 0x4D, *b"cib"})


def _refusal(op: int) -> str:
    name = next((known.name for known in pickletools.opcodes if ord(known.code) == op), None)
    if name is None:
        return f"damaged: {op:#04x} is no opcode"
    return f"refused: opcode {name} is none of plain values, and a dump holds nothing else"
