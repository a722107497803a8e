"""The glossary of the docs has every word of the report, with the same meaning."""

from __future__ import annotations

from tests.docs.blocks import ROOT

from sfumato import catalogue
from sfumato.report.glossary import list_terms


def test_the_words_of_the_report_are_explained_alike():
    page = (ROOT / "docs/glossary.md").read_text("utf-8")
    steps = [{"method": name} for name in catalogue.methods()]
    terms = list_terms({"methods": steps}, inside=True)
    assert len(terms) >= 15
    missing = [term for term, says in terms.items() if f"| **{term}** | {says} " not in page]
    assert not missing
