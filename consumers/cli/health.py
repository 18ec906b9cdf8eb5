"""``bundles health``: is the process beside this one well? For container health checks."""

from __future__ import annotations

from typing import Annotated

import typer

from consumers.cli.common import ConfigOption, Problem, SetOption

MAX_REASON_BYTES = 500


def health(
    ready: Annotated[
        bool, typer.Option("--ready", help="Can it take work? Default: is it alive?")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="Ask this address; default: this machine's worker.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.")] = 5.0,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Ask a worker on this machine (or the address given) for its health; exit code 1 when it is
    not well or does not answer."""
    # Not requests: a health check runs every few seconds and should cost next to nothing.
    import urllib.error
    import urllib.request

    if url is None:
        url = _worker_url("ready" if ready else "live", config, set_)
    elif not url.startswith(("http://", "https://")):
        raise Problem(f"--url {url}: give an http address")
    # A proxy that is set for the way out must not be asked for a neighbour.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout):
            print("ok")
    except urllib.error.HTTPError as error:
        reason = error.read(MAX_REASON_BYTES).decode(errors="replace").strip()
        raise Problem(f"{url} answers {error.code}: {reason}", 1) from None
    except (OSError, ValueError) as error:
        raise Problem(f"{url} does not answer ({_kind(error)})", 1) from None


def _worker_url(page: str, config: ConfigOption, set_: SetOption) -> str:
    from consumers.cli.common import settings

    http = settings(config, set_).http
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(http.host, http.host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{http.port}/{page}"


def _kind(error: Exception) -> str:
    """urllib wraps what happened."""
    return type(getattr(error, "reason", error)).__name__
