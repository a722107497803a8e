"""Hand free text to a de-identifier, and take the record's own identifiers out of it."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Self

import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.deidentifiers import (
    PRESIDIO,
    deidentify,
    find_version,
    load_deidentifier,
    replace_own,
)
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError, WeakProtectionWarning
from sfumato.io.frames import to_canonical_text
from sfumato.method import Fitted, RowWise
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema


@parameters
class DeidentifyText(RowWise):
    """Replace names, addresses, numbers and other identifiers in free text.

    Question: can notes and comments leave without naming anybody?
    Assumes: the de-identifier finds all names, which no program does, and what a text tells of a
    person besides (a rare disease, an accident in the papers) points to nobody. The second is
    measured by nothing here: let somebody read a sample. Dropping free text is safer.

    The record's own identifiers (roles "direct" and "person"), whole and by their words, are
    replaced by `<IDENTIFIER>` first; so put this step before the one that drops them. Then the
    de-identifier gets the text. Attack `surviving_identifiers` plants identifiers in the texts, and
    whatever of them survives makes the verdict not met.

    Parameters
    ----------
    variables : the free text.
    deidentifier : program that finds names: "presidio" (Microsoft Presidio, `pip install
        '.[text]'`, and a language model for it); "patterns", which finds e-mail and web addresses,
        telephone numbers, dates and numbers of people by their form, and no names; or what an
        installed package brings (entry point `sfumato.deidentifiers`).
    language : language of the text, such as "de". For Presidio.
    model : the model of spaCy that finds the names, by name or folder. For Presidio; by default
        the large one of the language.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> notes = {"name": ["Ada King"], "note": ["Mrs King called from 020 7946 0123, in tears."]}
    >>> data = sf.Dataset(pl.DataFrame(notes), sf.Schema({"name": "direct", "note": "sensitive"}))
    >>> step = DeidentifyText(variables=["note"], deidentifier="patterns")
    >>> step.apply(data).frame["note"][0]
    'Mrs <IDENTIFIER> called from <PHONE_NUMBER>, in tears.'

    References: Presidio, microsoft.github.io/presidio. Stubbs & Uzuner (2015), Annotating
    longitudinal clinical narratives for de-identification, J Biomed Inform 58:S20.
    """

    name = "deidentify_text"
    runs_on = ("local", "streaming", "spark")
    preserves = ("wording",)
    examples = ({"variables": ["address"], "deidentifier": "patterns"},)
    variables: Annotated[list[str], Field(min_length=1)]
    deidentifier: str
    language: str = "en"
    model: str | None = None

    @model_validator(mode="after")
    def _check_language(self) -> Self:
        if self.deidentifier != PRESIDIO and self.model is not None:
            msg = f"model is for Presidio, and '{self.deidentifier}' takes none."
            raise ValueError(msg)
        return self

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The text, and the identifiers of its record."""
        return tuple(dict.fromkeys((*self.variables, *schema.identifiers)))

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Which identifiers are looked for, and by which version of what."""
        del engine
        load_deidentifier(self.deidentifier, self.language, self.model)
        for name in self.variables:
            if data.dtype(name) not in (pl.String, pl.Categorical, pl.Enum):
                raise MethodError(
                    f"Variable '{name}' holds no text.",
                    hint="name variables with text only.",
                )
        identifiers = [name for name in data.schema.identifiers if name not in self.variables]
        if not identifiers:
            warnings.warn(
                "There is no identifier whose values could be taken out of the text. Put the step "
                "`deidentify_text` before those that drop or pseudonymise identifiers.",
                WeakProtectionWarning,
                stacklevel=3,
            )
        return {"identifiers": identifiers, "version": find_version(self.deidentifier)}

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """The text of a batch of records without identifiers."""
        del draws
        function = load_deidentifier(self.deidentifier, self.language, self.model)
        canonical = batch.select(to_canonical_text(batch[name]) for name in fitted["identifiers"])
        identifiers = canonical.rows() if canonical.width else [()] * batch.height
        return pl.DataFrame(
            [
                pl.Series(
                    name,
                    [
                        None
                        if text is None
                        else self._replace(text, [i for i in known if i is not None], function)
                        for text, known in zip(
                            batch[name].cast(pl.String).to_list(), identifiers, strict=True
                        )
                    ],
                    dtype=pl.String,
                )
                for name in self.variables
            ]
        )

    def _replace(self, text: str, identifiers: list[str], function: Any) -> str:
        return deidentify(replace_own(text, identifiers), function, self.deidentifier)

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """De-identified text is no direct identifier; every other role stays."""
        del fitted
        direct = [name for name in self.variables if schema[name].role == "direct"]
        changed = schema.changed(direct, role="other", identity=None)
        return changed.changed(
            self.variables, kind="text", domain=None, hierarchy=None, cells="deidentified"
        )

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter and the version; the folder of a model says nothing to others."""
        settings = super().public(fitted)
        if self.model is not None:
            settings["model"] = self.model.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return {**settings, "version": fitted["version"]}
