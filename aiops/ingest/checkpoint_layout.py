"""Which checkpoint a file belongs to, judged by the names that the frameworks give.

Sources: torch.distributed.checkpoint ``filesystem.py`` (``__R_N.distcp``, ``.metadata``); Megatron-LM ``checkpointing.py``
(``iter_0001000``, ``mp_rank_TT_PPP``, ``latest_checkpointed_iteration.txt``, ``common.pt``, ``metadata.json``); DeepSpeed ``engine.py``
(``global_stepN``, ``latest``, ``*_model_states.pt``, ``*_optim_states.pt``); transformers
``trainer.py`` (``checkpoint-N``, ``tmp-checkpoint-N``);
Lightning ``ModelCheckpoint``; NeMo ``nemo_model_checkpoint.py`` (``-unfinished``); nvidia-resiliency-ext ``local_manager.py``
(``iter_NNNNNNN_R_local.pt``, ``.dirty``); Composer (``epE-baN-rankR.pt``); Orbax (``_CHECKPOINT_METADATA``, ``.orbax-checkpoint-tmp``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiops.ingest.listing import Entry

_STEP = re.compile(
    r"(?:^|[-_.=]|(?<=[a-z])(?=ba))(?:global_?step|steps?|iter(?:ation)?|ba|checkpoint|ckpt|chkpt)[-_=]?0*(\d{1,12})(?![\dA-Za-z])",
    re.I,
)
_EPOCH = re.compile(r"(?:^|[-_.])(?:epoch|ep)[-_=]?0*(\d{1,9})(?![\dA-Za-z])", re.I)
_STAGED = re.compile(
    r"^(?:tmp|temp|_tmp|\.tmp)[-_.]|[._-](?:tmp|temp|partial|incomplete|inprogress|in_progress)(?:[-_.]\w{0,40})?$",
    re.I,
)
_TAGS = re.compile(r"^(?:last|latest|final|best|release)(?:[-_](?:model|checkpoint|ckpt))?(?:-v\d+)?$|-last$", re.I)
_PAYLOAD = re.compile(r"\.(?:distcp|pt|pth|ckpt|safetensors|bin|nemo|msgpack|npz|h5)$", re.I)
_STEP_FILE = re.compile(r"\.(?:pt|pth|ckpt|safetensors|bin|nemo|msgpack|npz|tar)$", re.I)
METADATA = frozenset(
    {
        *(".metadata", "common.pt", "metadata.json", "meta.pt", "meta.json", "train_state.pt"),
        *("model.safetensors.index.json", "pytorch_model.bin.index.json", "trainer_state.json", "training_args.bin"),
        *("scheduler.pt", "optimizer.pt", "scaler.pt"),
        *("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "commit_success.txt"),
    }
)
"""Names that are part of a checkpoint and no evidence of anything else."""
TRACKERS = frozenset(
    {"latest_checkpointed_iteration.txt", "latest", "latest_checkpointed_iteration", "latest_train_state.pt"}
)
"""Files beside the checkpoints that name the newest; written after it is complete."""
_UNFINISHED = re.compile(r"[-.]unfinished$")
_LOCAL = re.compile(r"iter_(\d{7})_(\d{1,6})_local(\.dirty)?\.pt$")
_RANK = re.compile(r"[-_.]rank[-_]?(\d{1,6})(?=[-_.]|$)")
_ORBAX = frozenset({"_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "commit_success.txt"})
_ORBAX_TMP = ".orbax-checkpoint-tmp"


@dataclass(slots=True)
class Found:
    """One checkpoint and the entries that belong to it."""

    root: str
    """Its path as an operator would name it."""
    step: int | None
    epoch: int | None = None
    members: dict[str, Entry] = field(default_factory=dict)
    """Path below the root (or role of a file) -> entry."""
    folder: Entry | None = None
    """The entry of the root itself, if it was listed as a folder."""
    staged: str = ""
    """The temporary name under which it lies, if it was never moved to its place."""
    marker: Entry | None = None
    """A marker that says it is unfinished."""
    tracker: Entry | None = None
    single: bool = False
    """It is one file (or one for each rank), no folder."""

    @property
    def parent(self) -> str:
        return self.root.rpartition("/")[0]

    @property
    def layout(self) -> str:
        """Whose files these are, in words; empty if only the folder is known."""
        names = list(self.members)
        bases = {name.rpartition("/")[2] for name in names}
        for word, holds in (
            ("NVRx local", any(name.startswith("local rank ") for name in names)),
            ("DeepSpeed", any(b.endswith(("_model_states.pt", "_optim_states.pt")) for b in bases)),
            (
                "Megatron",
                "model_optim_rng.pt" in bases or (self.root.rpartition("/")[2].startswith("iter_") and bool(names)),
            ),
            ("NeMo", "--" in self.root.rpartition("/")[2]),
            (
                "Hugging Face Trainer",
                "trainer_state.json" in bases
                or (bool(names) and bool(re.search(r"(?:^|/)checkpoint-\d+$", self.root))),
            ),
            ("PyTorch DCP", any(b.endswith(".distcp") for b in bases)),
            ("Orbax", bool(bases & _ORBAX) or _ORBAX_TMP in self.root),
            ("Lightning", any(b.endswith(".ckpt") for b in bases) or self.root.endswith(".ckpt")),
        ):
            if holds:
                return word
        return "files" if names else ""


def is_weights(name: str) -> bool:
    """True if a file is named like one that holds tensors."""
    return bool(_PAYLOAD.search(name))


def step_of(name: str) -> tuple[int | None, int | None]:
    """(step, epoch) that the name of a file or folder states."""
    steps = _STEP.findall(name)
    epoch = _EPOCH.search(name)
    fairseq = re.match(r"checkpoint_(\d{1,6})_(\d{1,12})\.pt$", name)
    if fairseq:
        return int(fairseq[2]), int(fairseq[1])
    return (int(steps[-1]) if steps else None), (int(epoch[1]) if epoch else None)


def find_checkpoints(entries: Iterable[Entry]) -> list[Found]:
    """The checkpoints of some entries, by root path. Files that belong to none are left out."""
    entries = sorted(entries, key=lambda entry: (entry.path, entry.line))
    found: dict[str, Found] = {}
    orbax = {_parent(e.path) for e in entries if e.path.rpartition("/")[2] in _ORBAX and not e.folder}
    for entry in entries:
        if not entry.folder:
            _add_file(entry, found, orbax)
    taken = {id(entry) for item in found.values() for entry in item.members.values()}
    for entry in entries:
        name = entry.path.rpartition("/")[2]
        if entry.folder or (
            entry.rounded and entry.text[:1].isdigit() and _is_root(name) and "." not in name
        ):  # `du -s`
            root = entry.path
            if root in found:
                found[root].folder = entry
            elif _is_root(name) and not any(root.startswith(f"{known}/") for known in _parents(root) if known in found):
                step, epoch = step_of(name)
                found[root] = Found(root, step, epoch, folder=entry)
        elif id(entry) not in taken:
            _add_rest(entry, found)
    for item in found.values():
        if item.folder is not None and not item.staged and _STAGED.search(item.root.rpartition("/")[2]):
            item.staged = item.root.rpartition("/")[2]
    _markers(entries, found)
    return [found[root] for root in sorted(found)]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts) - 1, 0, -1)]


def _is_root(name: str) -> bool:
    bare = _STAGED.sub("", name.split(_ORBAX_TMP)[0])
    step, epoch = step_of(bare)
    return (step is not None or epoch is not None) and not _STEP_FILE.search(bare.removesuffix(".ckpt"))


def _root_of(path: str) -> str | None:
    """The folder above a file that is named like a checkpoint; of nested ones with one step the outermost."""
    parts = path.split("/")
    at = next((i for i in range(len(parts) - 2, -1, -1) if _is_root(parts[i])), None)
    if at is None:
        return None
    while at and _is_root(parts[at - 1]) and step_of(parts[at - 1])[0] in (step_of(parts[at])[0], None):
        if step_of(parts[at - 1])[0] is None and step_of(parts[at])[0] is not None:
            break
        at -= 1
    return "/".join(parts[: at + 1])


def _add_file(entry: Entry, found: dict[str, Found], orbax: set[str]) -> None:
    parent, _, name = entry.path.rpartition("/")
    local = _LOCAL.match(name)
    if local:
        top = _parent(parent) if parent.rpartition("/")[2] == local[2] else parent
        root = f"{top}/iter_{local[1]}" if top else f"iter_{local[1]}"
        item = found.setdefault(root, Found(root, int(local[1]), single=True))
        item.members[f"local rank {int(local[2])}{' (dirty)' if local[3] else ''}"] = entry
    elif _PAYLOAD.search(name) or name in METADATA or ".distcp." in name:
        owner = _owner(entry.path, orbax)
        if owner is not None:
            _add_member(entry, owner, found)
        elif _STEP_FILE.search(name) or _STAGED.search(name):
            _add_single(entry, found)


def _owner(path: str, orbax: set[str]) -> str | None:
    """The folder that is the checkpoint of a file, if it is a folder."""
    owner = _root_of(path)
    if owner is not None:
        return owner
    for above in _parents(path):
        if above in orbax and re.fullmatch(r"\d{1,12}(?:\..*)?", above.rpartition("/")[2]):
            return above
    parent, _, name = path.rpartition("/")
    if name.endswith(".distcp") or name == ".metadata" or _TAGS.search(parent.rpartition("/")[2]):
        return parent or None
    return None


def _add_member(entry: Entry, owner: str, found: dict[str, Found]) -> None:
    base = owner.rpartition("/")[2]
    step, epoch = step_of(base)
    number = re.match(r"\d{1,12}(?=$|\.)", base)
    if step is None and number:
        step = int(number[0])
    item = found.setdefault(owner, Found(owner, step, epoch))
    item.members[entry.path[len(owner) + 1 :]] = entry
    if _ORBAX_TMP in base or _STAGED.search(base):
        item.staged = base


def _add_single(entry: Entry, found: dict[str, Found]) -> None:
    """A checkpoint of one file, or of one for each rank."""
    parent, _, name = entry.path.rpartition("/")
    bare = _RANK.sub("", name)
    step, epoch = step_of(bare.split(".tmp")[0])
    if step is None and epoch is None and not (name.endswith(".ckpt") or _TAGS.search(bare.rpartition(".")[0])):
        return
    rank = _RANK.search(name)
    root = f"{parent}/{bare}" if parent else bare
    item = found.setdefault(root, Found(root, step, epoch, single=True))
    suffix = name[name.rindex(".") :]
    item.members[f"rank {int(rank[1])}{suffix}" if rank else f"file{suffix}"] = entry


def _add_rest(entry: Entry, found: dict[str, Found]) -> None:
    """Files without a telling name, below the root of a checkpoint."""
    for root in _parents(entry.path):
        item = found.get(root)
        if item is not None and not item.single:
            item.members.setdefault(entry.path[len(root) + 1 :], entry)
            return


def _markers(entries: list[Entry], found: dict[str, Found]) -> None:
    trackers = {_parent(e.path): e for e in entries if not e.folder and e.path.rpartition("/")[2] in TRACKERS}
    marked = {_UNFINISHED.sub("", e.path): e for e in entries if _UNFINISHED.search(e.path)}
    for item in found.values():
        item.tracker = trackers.get(item.parent)
        bare = item.root.removesuffix(".ckpt").removesuffix(".nemo")
        item.marker = marked.get(bare) or marked.get(item.root) or marked.get(bare.removesuffix("-EMA"))
