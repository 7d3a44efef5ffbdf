#!/usr/bin/env python3
"""The programs of a Kubernetes control plane, built once from pinned Go modules.

    programs.py [kube-api] [kube-kueue] [kube-jobs]     build them and print their folders

They lie in ``$AIOPS_TEST_CACHE`` or ``~/.cache/aiops-tests``, in a folder named after the hash of the pins; a later run
takes them from there. The first build takes 7 to 13 minutes on two cores, and 8 more for Kueue and the controllers of jobs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = {
    "kube-api": {
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "etcd": "go.etcd.io/etcd/server/v3",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    },
    "kube-kueue": {
        "kueue": "sigs.k8s.io/kueue/cmd/kueue",
        "trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
    },
    "kube-jobs": {"jobset": "sigs.k8s.io/jobset", "kuberay": "github.com/ray-project/kuberay/ray-operator"},
}
"""Go module folder beside this file -> program -> package."""
_BUILD_S = 3600


class BuildError(RuntimeError):
    """The programs are not there and could not be built."""


def cache_folder() -> Path:
    """Where built programs are kept between runs."""
    given = os.environ.get("AIOPS_TEST_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "aiops-tests"


def programs_folder(module: str) -> Path:
    """Folder of the module's programs, whether or not they have been built."""
    pins = (HERE / module / "go.mod").read_bytes() + (HERE / module / "go.sum").read_bytes()
    return cache_folder() / f"{module}-{hashlib.sha256(pins).hexdigest()[:12]}"


def are_built(module: str) -> bool:
    return all((programs_folder(module) / name).exists() for name in PACKAGES[module])


def build(module: str) -> Path:
    """Build the programs of a module unless they are there; returns their folder.

    Raises:
        BuildError: Go is missing, or the build failed.
    """
    target = programs_folder(module)
    target.mkdir(parents=True, exist_ok=True)
    with open(target / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not are_built(module):
            _go_build(module, target)
    return target


def _go_build(module: str, target: Path) -> None:
    fresh = target / "fresh"
    fresh.mkdir(exist_ok=True)
    flags = "-s -w"
    if module == "kube-api":
        version = pinned(module, "k8s.io/kubernetes")
        major, minor, _ = version[1:].split(".", 2)
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += (
                f" -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
                f" -X {package}.gitTreeState=clean"
            )
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    missing = {name: package for name, package in PACKAGES[module].items() if not (target / name).exists()}
    command = ["go", "build", "-ldflags", flags, "-o", f"{fresh}/", *missing.values()]
    try:
        done = subprocess.run(
            command, cwd=HERE / module, env=environment, capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
    except FileNotFoundError:
        raise BuildError("building the control plane needs Go, which is not installed") from None
    if done.returncode:
        raise BuildError(f"go build of {module} failed: {done.stderr.strip()[-600:]}")
    for name, package in missing.items():
        base = package.rsplit("/", 1)[1]
        # go build names a program after the last part of its package that is no version
        (fresh / ("server" if base == "v3" else base)).rename(target / name)
    fresh.rmdir()


def pinned(module: str, dependency: str) -> str:
    """Version of a dependency in the module's ``go.mod``."""
    for line in (HERE / module / "go.mod").read_text().splitlines():
        words = line.removeprefix("require").split()
        if words[:1] == [dependency] and len(words) > 1 and words[1].startswith("v"):
            return words[1]
    raise BuildError(f"{module}/go.mod does not pin {dependency}")


def source_of(dependency: str) -> Path:
    """Folder with the source of a module that ``kube-kueue`` pins; downloads it if need be.

    Raises:
        BuildError: it cannot be had.
    """
    command = ["go", "mod", "download", "-json", dependency]
    try:
        done = subprocess.run(
            command, cwd=HERE / "kube-kueue", capture_output=True, text=True, timeout=300, check=False
        )
    except FileNotFoundError:
        raise BuildError("reading the CRDs needs Go, which is not installed") from None
    lines = [line.split('"')[3] for line in done.stdout.splitlines() if line.strip().startswith('"Dir"')]
    if not lines:
        raise BuildError(f"the source of {dependency} cannot be had: {(done.stderr or done.stdout).strip()[-300:]}")
    return Path(lines[0])


if __name__ == "__main__":
    for name in sys.argv[1:] or PACKAGES:
        print(build(name), flush=True)
