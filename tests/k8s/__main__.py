"""`make k8s-check`: the manifests rendered offline, validated, and held against the settings."""

from __future__ import annotations

import sys
from importlib.metadata import version

from tests import checks
from tests.k8s.manifests import OVERLAYS

if __name__ == "__main__":
    facts = {"overlays": list(OVERLAYS), "kubernetes": version("kubernetes-validate")}
    sys.exit(checks.run("k8s", "tests/k8s", facts))
