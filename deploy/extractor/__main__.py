"""`python -m deploy.extractor`: runs the service until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from pydantic import ValidationError

from deploy.extractor.app import create_app
from deploy.extractor.connections import BoundedHttp
from deploy.extractor.datadir import DataDirInUse
from deploy.extractor.service import ExtractionService
from deploy.extractor.settings import Settings

# A client that polls every few seconds must find its connection open, or its next submit may
# meet the closing one.
_KEEP_ALIVE_S = 75
_GRACE_S = 5
_MANY_FILES = 65_536


def main() -> int:
    """Exit codes: 0 after an orderly stop, 2 when the settings do not allow a start."""
    arguments = _arguments()
    os.umask(0o077)  # whatever is written here or by a worker is for this user alone
    _log_json_to_stderr()
    _allow_many_connections()
    try:
        settings = Settings(**_overrides(arguments))
        service = ExtractionService(settings)
    except ValidationError as problem:
        return _refuse(*(_sentence(error) for error in problem.errors(include_input=False)))
    except DataDirInUse as problem:
        return _refuse(str(problem))
    except OSError as problem:
        return _refuse(f"{problem.filename}: {problem.strerror}; check EXTRACTOR_DATA_DIR")
    try:
        listener = _listen(settings.host, settings.port)
    except OSError as problem:
        return _refuse(
            f"cannot listen on {settings.host} port {settings.port} ({problem.strerror}); "
            "set EXTRACTOR_HOST and EXTRACTOR_PORT"
        )
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def announce() -> None:
        line = json.dumps({"listening": address})
        print(line, flush=True)
        if arguments.ready_file is not None:
            _write_whole(arguments.ready_file, line + "\n")

    # uvicorn stops in order on these and then raises them again; this makes that exit code 0.
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop_signal, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        create_app(service),
        log_config=None,
        access_log=False,  # a file URL is a capability; the access log would give it away
        http=BoundedHttp,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    _Server(config, announce, service.dispatcher.release_waiters).run(sockets=[listener])
    return 0


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        on_listening: Callable[[], None],
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._on_listening = on_listening
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        await super().shutdown(sockets)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.extractor",
        description="Extraction service. Settings come from EXTRACTOR_* variables; "
        "EXTRACTOR_TOKEN or EXTRACTOR_TOKEN_FILE is required.",
    )
    parser.add_argument("--host")
    parser.add_argument("--port", type=int, help="0 picks a free port")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--ready-file", type=Path, help="written when the service listens")
    return parser.parse_args()


def _overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen = {name: getattr(arguments, name) for name in ("host", "port", "data_dir")}
    return {name: value for name, value in chosen.items() if value is not None}


def _allow_many_connections() -> None:
    """Every client and every upload under way holds a file descriptor; the usual limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def _write_whole(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _sentence(error: Any) -> str:
    setting = "_".join(str(part) for part in error["loc"])
    prefix = f"EXTRACTOR_{setting.upper()}: " if setting else ""
    return prefix + str(error["msg"]).removeprefix("Value error, ")


def _refuse(*reasons: str) -> int:
    for reason in reasons:
        print(f"extraction service not started: {reason}", file=sys.stderr)
    return 2


def _log_json_to_stderr() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
