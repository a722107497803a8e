"""Evidence to one self-contained HTML page. A report reads; it never computes."""

from __future__ import annotations

from sfumato.report.codebook import describe_codebook, render_codebook
from sfumato.report.page import render_report
from sfumato.report.refusal import render_refusal

__all__ = ["describe_codebook", "render_codebook", "render_refusal", "render_report"]
