"""Bridge to Microsoft Presidio, which finds names, places and numbers in text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import MethodError

if TYPE_CHECKING:
    from sfumato.cells.deidentifiers import Deidentifier

_MODELS = {"en": "en_core_web_lg", "zh": "zh_core_web_lg"}


def load_presidio(language: str, model: str | None) -> Deidentifier:
    """A function that replaces whatever Presidio finds by what it is, such as `<PERSON>`.

    Parameters
    ----------
    language : the code of the language, such as "en".
    model : a model of spaCy, by its name or its folder. Default: the large one of the language.
    """
    try:
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
        from presidio_anonymizer import AnonymizerEngine
    except ImportError:
        raise MethodError(
            "Presidio is not installed.",
            hint="install it: in your copy of Sfumato, pip install '.[text]'.",
        ) from None
    wanted = model or _MODELS.get(language, f"{language}_core_news_lg")
    if not spacy.util.is_package(wanted) and not Path(wanted).is_dir():
        # Presidio would fetch it from the internet.
        raise MethodError(
            f"Presidio needs the language model '{wanted}', which is not installed.",
            hint=f'python -m spacy download {wanted}, or name another one: model = "...".',
        )
    models = [{"lang_code": language, "model_name": wanted}]
    provider = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models})
    analyzer: Any = AnalyzerEngine(
        nlp_engine=provider.create_engine(), supported_languages=[language]
    )
    anonymizer: Any = AnonymizerEngine()

    def replace_entities(text: str) -> str:
        entities = analyzer.analyze(text=text, language=language)
        return str(anonymizer.anonymize(text=text, analyzer_results=entities).text)

    return replace_entities
