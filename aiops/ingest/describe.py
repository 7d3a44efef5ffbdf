"""The one host and the one rank that a log says it comes from, and when its kernel started."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

from aiops.ingest.facts import Facts
from aiops.ingest.prefix import ANSI, NS, parse_prefix
from aiops.model.case import Source
from aiops.model.entity import is_host_name
from aiops.model.event import NO_TIME

_RANK_PATH = re.compile(
    r"(?:^|[/_.-])(?:rank|global_rank)[_.-]?(\d{1,6})(?=[/_.-]|$)|attempt_\d+/(\d{1,6})/std(?:err|out)"
)
_NAME_WORDS = re.compile(
    r"^(?:kern(?:el)?|dmesg|messages?|syslog|journal(?:ctl)?|log|logs|txt|out|err|json|gz|host|node|var|system|console|serial)$"
)
_LOG_OF = re.compile(
    r"^(?:kern(?:el)?|dmesg|messages?|syslog|journal(?:ctl)?)-|-(?:kern(?:el)?|dmesg|messages?|syslog|journal(?:ctl)?)$"
)
"""What a file of one host is often named with: ``dmesg-gpu07``. It is no part of the host's name."""
_TREE = re.compile(r"(?:^|[/!])sosreport-([A-Za-z][\w.-]*?)-(?:\d+-)?\d{4}-\d\d-\d\d|(?:^|[/!])nodes/([\w.-]+)/")
_LABEL = re.compile(r"\d{1,5}: ")
_UNAME = re.compile(rb"(?:^|\n)(?:uname: )?Linux ([\w.-]{1,253}) \d+\.\d+")
_LOGIN = re.compile(rb"(?:^|\n)(\w[\w.-]{0,252}) login: ")
"""What getty writes on a serial console; kernel lines follow on the same line."""
_CLOCK_SET = re.compile(
    rb"\[ *(\d{1,10}\.\d{1,9})\][^\n]{0,80}(?:setting system clock to [^\n(]{10,40}\((\d{10})\)"
    rb"|audit: type=\d+ audit\((\d{10}\.\d{3}):)"
)
"""Lines of `rtc` and of the audit subsystem that say seconds since boot and since 1970 at once."""


_JAX_PROCESS = re.compile(r"\bJAX process: (\d{1,6}) / \d")
"""What programs of JAX (Flax and others) log first; their processes are what its coordination service calls tasks."""
_FIRST = 100
"""Lines of a sample that are all read for hosts and ranks."""


def describe(source: Source, position: int, head: bytes, facts: Facts) -> None:
    """Fill ``source.node`` and ``source.rank`` from a sample of its content; names of files are weak hints."""
    hosts: Counter[str] = Counter()
    ranks: Counter[int] = Counter()
    plain = ANSI.sub(b"", head) if b"\x1b" in head else head
    lines = plain.decode("utf-8", "replace").splitlines()[:400]
    labelled = sum(_LABEL.match(line) is not None for line in lines)
    if lines and labelled * 10 > len(lines) * 7:
        source.format = "srun -l"
    # the first lines one by one, then every third: a long sample is as telling
    for line in chain(lines[:_FIRST], lines[_FIRST::3]):
        prefix = parse_prefix(line[:400])
        if prefix.host and prefix.kernel and is_host_name(prefix.host):
            hosts[prefix.host] += 1
        rank = prefix.rank if prefix.rank is not None else _jax_process(line)
        if rank is not None:
            ranks[rank] += 1
    _rank(source, position, ranks, facts)
    if len(hosts) == 1:
        source.node = next(iter(hosts))
        facts.node_why.setdefault(position, "the only host that its lines name")
    elif not hosts and source.kind == "kernel" and source.node is None:
        _weak_host(source, position, head, facts)
    if source.kind == "kernel":
        boot = boot_time(head)
        if boot != NO_TIME:
            facts.boot[position] = boot


def _rank(source: Source, position: int, ranks: Counter[int], facts: Facts) -> None:
    if source.rank is not None:
        return
    if len(ranks) == 1:
        source.rank = next(iter(ranks))
        facts.rank_why[position] = "the only rank that its lines name"
    elif not ranks and source.kind == "training":
        match = _RANK_PATH.search(source.name)
        if match:
            source.rank = int(match[1] or match[2])
            facts.rank_why[position] = "the file's name, since its lines name none"


def _jax_process(line: str) -> int | None:
    match = _JAX_PROCESS.search(line) if "JAX process" in line else None
    return int(match[1]) if match else None


def _weak_host(source: Source, position: int, head: bytes, facts: Facts) -> None:
    uname = _UNAME.search(head)
    if uname and is_host_name(uname[1].decode()):
        source.node = uname[1].decode()
        facts.node_why[position] = "the output of uname in it"
        return
    prompts = {name.decode() for name in _LOGIN.findall(head)}
    if len(prompts) == 1 and is_host_name(prompt := prompts.pop()):
        source.node = prompt
        facts.node_why[position] = "the login prompt of its console"
        return
    tree = _TREE.search(source.name)
    name = (tree[1] or tree[2]) if tree else host_in_name(source.name)
    if name and is_host_name(name):
        source.node = name
        facts.node_why[position] = "the folder's name" if tree else "the file's name, since its lines name none"


def host_in_name(name: str) -> str | None:
    """A plain ``dmesg`` carries no host: the file's name is then the only hint, and a weak one."""
    for part in reversed(re.split(r"[/!]", name)):
        words = [w for w in re.split(r"[._ ]", part) if w and not _NAME_WORDS.match(w)]
        if len(words) != 1:
            continue
        host = _LOG_OF.sub("", words[0])
        named = host != words[0]  # what stands beside such a word is a host, or a date
        if is_host_name(host) and re.search(r"\d", host) and (host[0].isalpha() if named else len(host) > 2):
            return host
    return None


def boot_time(head: bytes) -> int:
    """UTC ns at which the kernel of a log started, from lines that carry both clocks; the last boot of the sample counts."""
    boot = NO_TIME
    for match in _CLOCK_SET.finditer(head):
        wall, _, part = (match[2] or match[3]).decode().partition(".")
        up, _, rest = match[1].decode().partition(".")
        boot = int(wall) * NS + int(part.ljust(9, "0")) - int(up) * NS - int(rest.ljust(9, "0"))
    return boot


def hosts_of_trees(sources: list[Source], facts: Facts) -> None:
    """A file that holds nothing but a host name (sosreport's ``hostname``) names the host of the kernel logs below its folder."""
    named: dict[str, str] = {}
    for source in sources:
        if source.kind == "text" and source.size < 300 and re.split(r"[/!]", source.name)[-1] == "hostname":
            word = source.path.read_bytes().decode("utf-8", "replace").strip()
            if is_host_name(word):
                named[source.name[: -len("hostname")].removesuffix("sos_commands/host/")] = word
    if not named:
        return
    for position, source in enumerate(sources):
        certain = facts.node_why.get(position, "").startswith(
            ("the only", "the output", "the login", "case.yaml", "its records")
        )
        if source.kind != "kernel" or certain:
            continue
        tops = [top for top in named if source.name.startswith(top)]
        if tops:
            source.node = named[max(tops, key=len)]
            facts.node_why[position] = "the file hostname of its folder"
