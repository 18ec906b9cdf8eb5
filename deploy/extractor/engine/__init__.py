"""Gets the images out of a PDF: what every page draws, with the right pixels."""

from deploy.extractor.engine.extraction import extract
from deploy.extractor.engine.model import (
    EncryptedDocument,
    ExtractedImage,
    Extraction,
    ExtractionError,
    ExtractOptions,
    LimitExceeded,
    UnreadableDocument,
)

__all__ = [
    "EncryptedDocument",
    "ExtractOptions",
    "ExtractedImage",
    "Extraction",
    "ExtractionError",
    "LimitExceeded",
    "UnreadableDocument",
    "extract",
]
