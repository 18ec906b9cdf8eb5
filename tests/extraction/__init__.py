"""Measures the extraction engine on a folder of PDFs against poppler, PDFium, pikepdf and pypdf."""
