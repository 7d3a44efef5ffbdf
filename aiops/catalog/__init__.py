"""Knowledge as data: signals, failure classes and playbooks, and the code that reads and checks them."""

from aiops.catalog.loader import load_catalog
from aiops.catalog.model import Catalog, FailureClass, Playbook, Sign, Signal, Step, XidCode

__all__ = ["Catalog", "FailureClass", "Playbook", "Sign", "Signal", "Step", "XidCode", "load_catalog"]
