"""HTTP/1.1 exchanges for the hot path: the store's and the services' calls go through here.

urllib3 opens the connections (names, TLS and certificates are its business) and llhttp (of
`httptools`) parses the answers; what is left out is everything in between. One call costs a
quarter of the CPU of urllib3's own way, which parses an answer's head as an e-mail.

Nothing in here follows a redirect, retries, decodes, logs, or puts an address into an exception.
"""

from sinks.http1.bodies import BLOCK_BYTES, Body, blocks_of, joined
from sinks.http1.failures import Broken, CutShort, HttpFailure, NotConnected, TimedOut
from sinks.http1.origin import Origin, Origins, default_port
from sinks.http1.response import MAX_HEAD_BYTES, Headers, Response

__all__ = [
    "BLOCK_BYTES",
    "MAX_HEAD_BYTES",
    "Body",
    "Broken",
    "CutShort",
    "Headers",
    "HttpFailure",
    "NotConnected",
    "Origin",
    "Origins",
    "Response",
    "TimedOut",
    "blocks_of",
    "default_port",
    "joined",
]
