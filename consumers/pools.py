"""The names of the thread pools: which kind of call waits for which other."""

from __future__ import annotations

STORE = "store"
PROVIDER = "provider"
DOWNLOAD = "download"
SOURCE = "source"
PARSE = "parse"
