"""Objects of dynamic resource allocation: devices as a driver publishes them, and claims on them."""

from __future__ import annotations

from typing import Any

DRIVER = "gpu.nvidia.com"
_GROUP = "resource.k8s.io/v1"


def device_class() -> dict[str, Any]:
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return {
        "apiVersion": _GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [selector]},
    }


def resource_slice(node: str, pool: str, devices: int) -> dict[str, Any]:
    """What the driver of a node with so many GPUs publishes, with the label of the node's pool."""
    return {
        "apiVersion": _GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu", "labels": {"pool": pool}},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(devices)],
        },
    }


def claim_template(name: str, namespace: str, devices: int) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": devices}}
    return {
        "apiVersion": _GROUP,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def claiming(pod: dict[str, Any], claim: str) -> dict[str, Any]:
    """The pod template with a claim of this template instead of GPUs of a device plugin."""
    container = {**pod["spec"]["containers"][0], "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": claim}]
    return {**pod, "spec": {**pod["spec"], "containers": [container], "resourceClaims": claims}}
