#!/usr/bin/env python3
"""A real Kubernetes control plane on loopback whose kubelets are played by kwok.

    cluster.py DIR [--kueue]      starts it, prints KUBECONFIG= and KUBECTL=, and runs until it is interrupted

etcd, kube-apiserver (TLS, RBAC, real admission), kube-controller-manager, kube-scheduler, and kwok as the kubelet of each
node labelled ``type=kwok`` (``stages.yaml`` says how pods live and die). No container runs and no image is pulled. All
data lies below DIR; nothing listens outside of 127.0.0.1.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from services.kubernetes.programs import HERE, build

_READY_S = 120.0
_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
"""Native pod groups, alpha in 1.36."""
_STEP_S = 0.1
_NAMES = {
    "admin": "/O=system:masters/CN=admin",
    "kwok": "/O=system:masters/CN=kwok",
    "kueue": "/O=system:masters/CN=kueue",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
}
_TRANSIENT = (OSError, http.client.HTTPException, ValueError)


class ApiError(RuntimeError):
    """The API server refused a request."""

    def __init__(self, code: int, body: Any) -> None:
        super().__init__(f"{code}: {body.get('message', body) if isinstance(body, dict) else body}")
        self.code = code


class KubernetesCluster:
    """Context manager: ``with KubernetesCluster(folder) as cluster: cluster.kubectl("get", "nodes")``.

    Args:
        folder: empty directory for keys, data and logs.
        grace: seconds without a heartbeat until a node is Unknown.
        evict_after: seconds until pods are deleted from a node that is not Ready.
    """

    def __init__(self, folder: Path, *, grace: int = 8, evict_after: int = 4) -> None:
        self.folder = folder
        self.kubectl_path = ""
        self.port = 0
        self._grace, self._evict_after = grace, evict_after
        self._programs = Path()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._context: ssl.SSLContext | None = None

    def __enter__(self) -> KubernetesCluster:
        self._programs = build("kube-api")
        self.kubectl_path = str(self._programs / "kubectl")
        for name in ("pki", "etcd", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        try:
            self._keys()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # use ---------------------------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Output of a kubectl command; raises if it fails."""
        done = subprocess.run(
            [self.kubectl_path, "--kubeconfig", str(self.kubeconfig), *args],
            input=stdin,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def api(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """One request to the API server as admin; raises `ApiError` if it is refused."""
        if self._context is None:
            self._context = ssl.create_default_context(cafile=str(self._key("ca.crt")))
            self._context.load_cert_chain(self._key("admin.crt"), self._key("admin.key"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": kind, "Accept": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if answer.status >= 300:
            raise ApiError(answer.status, value)
        return value

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects through kubectl."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(listed))

    def wait(self, what: str, test: Callable[[], Any], timeout: float = 60.0) -> Any:
        """Ask until the answer is true; raises with ``what`` and the last answer if it never is."""
        deadline = time.monotonic() + timeout
        last: Any = None
        while time.monotonic() < deadline:
            try:
                last = test()
            except (*_TRANSIENT, ApiError, RuntimeError) as error:
                last = error
            else:
                if last:
                    return last
            threading.Event().wait(_STEP_S)
        raise TimeoutError(f"{what}: not within {timeout:.0f} s (last: {last!r:.500}); logs in {self.folder / 'log'}")

    def node_down(self, name: str) -> None:
        """Its kubelet stops: the node becomes Unknown when its heartbeat is missed."""
        self.kubectl("label", "node", name, "type-")

    def run(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        """Start a further program that ends with the cluster; its log is ``log/NAME.log``."""
        import os

        with open(self.folder / "log" / f"{name}.log", "ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
            )

    def alive(self, name: str) -> bool:
        return self._running[name].poll() is None

    def stop(self) -> None:
        """Stop what was started, last first; safe to call twice."""
        for process in reversed(list(self._running.values())):
            # nothing that they have is kept, and a polite API server waits for its watchers
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()

    # starting ----------------------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return str(self.folder / "pki" / name)

    def _keys(self) -> None:
        self._certificate("ca", "/CN=aiops-test-ca")
        self._certificate(
            "server",
            "/CN=kube-apiserver",
            "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc",
            "basicConstraints=critical,CA:FALSE",
            "extendedKeyUsage=serverAuth",
        )
        for name, subject in _NAMES.items():
            self._certificate(name, subject, "basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth")
        self._openssl(
            "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", self._key("sa.key")
        )
        self._openssl("pkey", "-in", self._key("sa.key"), "-pubout", "-out", self._key("sa.pub"))

    def _certificate(self, name: str, subject: str, *extensions: str) -> None:
        signer = [] if name == "ca" else ["-CA", self._key("ca.crt"), "-CAkey", self._key("ca.key")]
        self._openssl(
            *("req", "-x509", *signer, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "30", "-subj", subject, "-keyout", self._key(f"{name}.key"), "-out", self._key(f"{name}.crt")),
            *(part for extension in extensions for part in ("-addext", extension)),
        )

    def _openssl(self, *args: str) -> None:
        subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)

    def _write_kubeconfig(self, name: str) -> str:
        def inline(file: str) -> str:
            return base64.b64encode(Path(self._key(file)).read_bytes()).decode()

        server = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": inline("ca.crt")}
        user = {"client-certificate-data": inline(f"{name}.crt"), "client-key-data": inline(f"{name}.key")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": "test", "user": name}}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))  # JSON is YAML
        return str(path)

    def _start(self) -> None:
        client, peer, self.port, managers, schedulers = free_ports(5)
        configs = {name: self._write_kubeconfig(name) for name in _NAMES}
        etcd = f"http://127.0.0.1:{client}"
        self.run("etcd", self._etcd(etcd, f"http://127.0.0.1:{peer}"))
        self._until_up("etcd", lambda: _get_json(f"{etcd}/health")["health"] == "true")
        self.run("apiserver", self._apiserver(etcd))
        self._until_up("apiserver", lambda: self.api("GET", "/readyz") == "ok")
        tls = ["--bind-address=127.0.0.1", *self._tls()]
        rates = ["--leader-elect=false", "--kube-api-qps=300", "--kube-api-burst=600"]
        self.run(
            "controller-manager",
            [
                *(
                    self._program("kube-controller-manager"),
                    f"--kubeconfig={configs['controller-manager']}",
                    *tls,
                    *rates,
                ),
                *(f"--secure-port={managers}", "--authentication-skip-lookup", "--use-service-account-credentials"),
                *(f"--service-account-private-key-file={self._key('sa.key')}", f"--root-ca-file={self._key('ca.crt')}"),
                *("--node-monitor-period=1s", f"--node-monitor-grace-period={self._grace}s", _GATES),
            ],
        )
        self.run(
            "scheduler",
            [
                *(self._program("kube-scheduler"), f"--kubeconfig={configs['scheduler']}", *tls, *rates),
                *(f"--secure-port={schedulers}", _GATES),
            ],
        )
        self.run(
            "kwok",
            [
                *(self._program("kwok"), f"--kubeconfig={configs['kwok']}", f"--config={HERE / 'stages.yaml'}"),
                *("--manage-all-nodes=false", "--manage-nodes-with-label-selector=type=kwok"),
                "--node-lease-duration-seconds=4",
            ],
        )
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._until_up("controller-manager", lambda: self.api("GET", account))
        self._until_up("scheduler", lambda: self._healthy(schedulers))

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _tls(self) -> list[str]:
        return [f"--tls-cert-file={self._key('server.crt')}", f"--tls-private-key-file={self._key('server.key')}"]

    def _etcd(self, client: str, peer: str) -> list[str]:
        return [
            *(self._program("etcd"), "--name=test", f"--data-dir={self.folder / 'etcd'}", "--log-level=warn"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"),
            *(f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}", "--unsafe-no-fsync"),
        ]

    def _apiserver(self, etcd: str) -> list[str]:
        return [
            *(self._program("kube-apiserver"), f"--etcd-servers={etcd}", f"--secure-port={self.port}"),
            *(
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                *self._tls(),
            ),
            *(f"--client-ca-file={self._key('ca.crt')}", "--authorization-mode=Node,RBAC", "--allow-privileged=true"),
            *("--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc"),
            *(f"--service-account-key-file={self._key('sa.pub')}", "--profiling=false", "--shutdown-delay-duration=0"),
            f"--service-account-signing-key-file={self._key('sa.key')}",
            *(_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true"),
            f"--default-not-ready-toleration-seconds={self._evict_after}",
            f"--default-unreachable-toleration-seconds={self._evict_after}",
        ]

    def _until_up(self, name: str, test: Callable[[], Any]) -> None:
        def up() -> Any:
            if not self.alive(name):
                raise SystemExit(f"{name} ended: {self.log(name)}")
            return test()

        self.wait(name, up, _READY_S)

    def log(self, name: str) -> str:
        """The end of a program's log."""
        return (self.folder / "log" / f"{name}.log").read_text(errors="replace")[-2000:]

    def _healthy(self, port: int) -> bool:
        context = ssl.create_default_context(cafile=self._key("ca.crt"))
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
        ) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now, all different."""
    with contextlib.ExitStack() as open_sockets:
        probes = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kueue", action="store_true")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with KubernetesCluster(options.folder.resolve()) as cluster:
        if options.kueue:
            from services.kubernetes.kueue import start_kueue

            start_kueue(cluster)
        print(f"KUBECONFIG={cluster.kubeconfig} KUBECTL={cluster.kubectl_path}", flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
