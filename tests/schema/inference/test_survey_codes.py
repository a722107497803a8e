"""Names that are codes: known from surveys, or recognised by their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.schema.inference.suggested import one

import sfumato as sf
from sfumato.schema import Schema
from sfumato.schema.inference import suggest
from sfumato.schema.inference.names import find_signs
from sfumato.schema.inference.survey_codes import add_survey_signs

NATIONAL = {
    "PUMA": "quasi text",
    "AGEP": "quasi integer",
    "SEX": "quasi nominal",
    "MSP": "quasi nominal",
    "HISP": "quasi nominal",
    "RAC1P": "quasi nominal",
    "NOC": "quasi integer",
    "NPF": "quasi integer",
    "HOUSING_TYPE": "quasi nominal",
    "OWN_RENT": "quasi nominal",
    "DENSITY": "quasi continuous",
    "INDP": "quasi nominal",
    "INDP_CAT": "quasi nominal",
    "EDU": "quasi ordinal",
    "PINCP": "sensitive integer",
    "PINCP_DECILE": "sensitive ordinal",
    "POVPIP": "sensitive integer",
    "DVET": "sensitive nominal",
    "DREM": "sensitive nominal",
    "DPHY": "sensitive nominal",
    "DEYE": "sensitive nominal",
    "DEAR": "sensitive nominal",
    "PWGTP": "weight integer",
    "WGTP": "weight integer",
}


@pytest.fixture(scope="module")
def national(shared_data: Path) -> pl.DataFrame:
    frame: pl.DataFrame = sf.read(shared_data / "national2019.csv").frame
    return frame


def test_every_column_of_a_census_file_gets_a_role(national: pl.DataFrame) -> None:
    schema = Schema.infer(national)
    assert {name: f"{column.role} {column.kind}" for name, column in schema.items()} == NATIONAL
    assert all("American Community Survey" in column.reason for column in schema.values())
    assert schema["WGTP"].missing == (0,)
    assert "1,818 records have the weight 0" in schema["WGTP"].reason


def test_without_the_names_the_values_speak(national: pl.DataFrame) -> None:
    hidden = national.rename({name: f"V{place}" for place, name in enumerate(national.columns)})
    found = dict(zip(national.columns, suggest(hidden).values(), strict=True))
    few = {name for name, column in found.items() if "few levels" in column.reason}
    assert {name: found[name].role for name in found if found[name].role and name not in few} == {
        "PUMA": "quasi",
        "AGEP": "quasi",
        "SEX": "quasi",
        "PINCP": "sensitive",
    }
    assert {"MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "DVET"} <= few
    assert {found[name].role for name in few} == {"quasi"}


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        ("RB080 RB090 PB190 PE040 PY010N DB040 DB090 RB050", "qqqqsqww"),
        ("db040 hsize py010n rb050 hy040n", "qqsws"),
        ("agea gndr eisced pspwght hinctnta rlgdnm", "qqqwss"),
        ("AGE SEX HATLEV1D ILOSTAT COEFF INCDECIL", "qqqqws"),
        ("RIDAGEYR RIAGENDR RIDRETH1 DMDEDUC2 WTMEC2YR LBXTC", "qqqqws"),
        ("a_dvage a_jbstat a_fimnnet_dv a_indinus_xw", "qqsw"),
        ("gebjahr bula pglabnet phrf", "qqsw"),
    ],
)
def test_codes_of_other_surveys(names: str, roles: str) -> None:
    frame = pl.DataFrame({name: [20, 30, 40, 50] * 30 for name in names.split()})
    found = [str(column.role)[0] for column in suggest(frame).values()]
    assert "".join(found) == roles


def test_short_codes_need_others_of_their_survey() -> None:
    values = [1, 2, 3] * 30
    assert "marital" not in one("MSP", values).reason
    assert one("MSP", values, NOC=values).role == "quasi"
    assert one("AGEP", [30, 40, 50] * 30).role == "quasi"


def test_values_must_bear_a_code_out() -> None:
    assert one("AGEP", [300, 4000, 50] * 30).role is None
    assert one("PWGTP", [-3.5, 4, 5] * 30).role is None


def test_readable_names_keep_their_meaning() -> None:
    names = ("school", "sex", "region", "cluster", "race", "rent", "strata")
    signs = {name: find_signs(name) for name in names}
    for name, found in add_survey_signs(signs).items():
        assert found[: len(signs[name])] == signs[name]


def draw(low: int, high: int, records: int = 800) -> list[int]:
    values: list[int] = np.random.default_rng(0).integers(low, high, records).tolist()
    return values


def test_ages_years_and_money_by_their_values() -> None:
    assert "ages" in one("V1", draw(18, 88)).reason
    assert "years of birth" in one("V1", draw(1935, 2004)).reason
    assert "look like years;" in one("q7", draw(2010, 2020)).reason
    money = one("x12", [value * 100 for value in draw(3, 500)])
    assert (money.role, money.kind) == ("sensitive", "integer")
    areas = one("K3", [f"{value:05}" for value in draw(1000, 1060)])
    assert areas.role == "quasi"


@pytest.mark.parametrize(
    "values",
    [
        draw(0, 101),  # percentages
        draw(0, 40),
        draw(100, 190),  # centimetres
        draw(1000, 90_000),
        [0] * 500 + draw(1, 90, 300),  # counts
    ],
)
def test_other_numbers_say_nothing(values: list[int]) -> None:
    assert one("V1", values).role is None


def test_words_in_a_name_keep_values_from_guessing() -> None:
    assert one("score", draw(18, 88)).role is None
    assert one("reaction_time", draw(1935, 2004)).role is None


def test_one_and_two_in_halves_may_be_sex() -> None:
    halves = [1, 2] * 60
    assert "sex" in one("V2", halves).reason
    assert "sex" not in one("V2", [1] * 100 + [2] * 20).reason
    # Of two such variables nobody knows which; and where sex is known, it is not looked for.
    assert "sex" not in one("V2", halves, V3=halves).reason
    assert "sex" not in one("V2", halves, sex=["m", "f"] * 60).reason
    assert one("smokes_at_home", halves).role == "sensitive"


def test_codes_of_few_levels_are_taken_as_known_unless_they_are_very_many() -> None:
    levels = [1, 1, 1, 2, 3, 9] * 20
    few = one("V2", levels)
    assert (few.role, few.kind) == ("quasi", "nominal")
    assert "few levels, as groups have" in few.reason
    answers = suggest(pl.DataFrame({f"q{number}": levels for number in range(25)}))
    assert {column.role for column in answers.values()} == {None}
    assert answers["q3"].reason.startswith("One of 25 codes of few levels, as answers")
    # Not what a readable name leaves open, and not a handful of records.
    assert one("item_total", levels).role is None
    assert one("V2", levels[:12]).role is None
    assert one("V2", [0, 1, 1] * 40).role is None  # yes or no to something
