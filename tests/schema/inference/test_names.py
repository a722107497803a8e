"""What the words in a name speak of."""

from __future__ import annotations

import pytest
from tests.schema.inference.suggested import one

from sfumato.schema.inference.names import find_signs

NAMES: dict[str, str] = {
    "a person's name": "Name, name_1, firstName, LAST_NAME, surname, patient_name, Vorname, "
    "Nachname, prénom, apellidos, cognome, achternaam, Förnamn, etternavn, sukunimi, imię, "
    "nazwisko",
    "an address": "address, street_name, Anschrift, Straße, adresse, dirección, indirizzo, ulica",
    "a telephone number": "phone, Phone No, mobile_number, telefon, teléfono, fax, puhelinnumero",
    "an e-mail address": "email, eMail, E-Mail-Address, e_mail, courriel, correo, sähköposti",
    "a national, tax or insurance number": "SSN, nhs_number, KVNR, Steuer-ID, INSEE, bsn, DNI, "
    "codice_fiscale, personnummer, CPR, fødselsnummer, hetu, PESEL, passport_no, "
    "rijksregisternummer",
    "a medical record number": "MRN, medicalRecordNumber, hadm_id, Fallnummer",
    "a vehicle or a device": "VIN, licence_plate, Kennzeichen, device_serial, IMEI, mac_address",
    "an address or account on the internet": "url, ip_address, website",
    "the number of a person": "PassengerId, patient_id, PatientID, patientid, id_paciente, "
    "Patientennummer, student",
    "the date or year of birth": "DOB, DoB, birth_date, dateOfBirth, BirthYear, Geburtsdatum, "
    "date_naissance, fecha_de_nacimiento, data_di_nascita, geboortedatum, födelsedatum, "
    "data_urodzenia",
    "age": "age, Age, patient_age, age_at_diagnosis, Alter, edad, leeftijd, ålder, wiek",
    "an age group": "age_group, ageBand, Altersgruppe",
    "sex or gender": "sex, Gender, Geschlecht, sexe, sexo, sesso, geslacht, kön, kjønn, płeć",
    "nationality, country or place of birth": "country_name, pays, Geburtsort, country_of_birth",
    "marital status": "marital_status, Familienstand, estado_civil, état_civil, stan_cywilny",
    "work or occupation": "occupation, workclass, Beruf, profesión, beroep, yrke, zawód",
    "education": "education, Schulabschluss, utbildning, wykształcenie",
    "a postcode": "zip, zip_code, PostCode, PLZ, code_postal, kod_pocztowy",
    "a place": "city, Region, county, Wohnort, ville, ciudad, miasto, Embarked",
    "household or family": "SibSp, Parch, household_size, children, Anzahl Kinder, hijos",
    "travel or social class": "Pclass, class, social_class",
    "illness or a diagnosis": "diagnosis, icd10, ICD_10_code, hiv_status, Krankheit, maladie, "
    "choroba",
    "treatment or care": "medications, drug_name, lab_procedures, readmitted, tratamiento",
    "a health measurement": "HbA1c, glucose, hdl, systolic_bp, BMI, Blutdruck",
    "survival, death or another outcome": "Survived, vital_status, cause_of_death, verstorben",
    "smoking, drinking or drug use": "smoking, Smoker, alcohol_use, drug_use, Raucher, fumeur",
    "religion, politics or trade union, which the law protects specially": "religion, trade_union",
    "money": "income, Salary, hospital_charges, Fare, Einkommen, revenu, dochód",
    "a survey weight": "survey_weight, pweight, finalwt, fnlwgt, samplingWeight, design_weight",
    "a school, household, site or other group": "school, hospital_name, ward, PSU, strata, Klinik",
}


@pytest.mark.parametrize(
    ("name", "what"),
    [(name.strip(), what) for what, names in NAMES.items() for name in names.split(",")],
)
def test_names_speak(name: str, what: str) -> None:
    assert find_signs(name)[0].what == what


@pytest.mark.parametrize(
    "name",
    [
        "filename",
        "file_name",
        "image",
        "stage",
        "covidx",
        "message",
        "x1",
        "standLRT",
        "column_name",
        "percentage",
        "std_error",
        "validid",
        "table",
        "nameless",
        "hexagon",
        "essex",
        "manage",
    ],
)
def test_other_names_are_silent(name: str) -> None:
    assert [sign.what for sign in find_signs(name)] == []


@pytest.mark.parametrize(
    "name", ["country_name", "drug_name", "hospital_name", "filename", "city name"]
)
def test_not_every_name_is_a_persons(name: str) -> None:
    values = ["Aa", "Bb", "Cc", "Dd"] * 20
    assert one(name, values).role != "direct"


@pytest.mark.parametrize(
    "name", ["<b>age</b>", "../../age", "🎂 age", "age\n", "«age»", "a/g/e; age"]
)
def test_odd_names_are_read_all_the_same(name: str) -> None:
    assert one(name, range(20, 60)).role == "quasi"


@pytest.mark.parametrize("name", ["", "🎂", "<script>", "..", "年齢", " "])
def test_odd_names_say_nothing(name: str) -> None:
    assert one(name, [0.5, 1.5, 2.5]).role is None
