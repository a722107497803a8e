"""Words that names of variables are made of, and what they speak of.

In English, German, French, Spanish, Italian, Dutch, the Nordic languages and Polish, without
accents; a leading "=" asks that nothing else stand in the name.
"""

from __future__ import annotations

import unicodedata

from sfumato.schema import Role

PEOPLE = """patient, pat, patients, patienten, subject, subj, participant, person, respondent, resp,
    student, pupil, passenger, client, customer, employee, staff, worker, member, individual,
    proband, donor, user, child, mother, father, study, teilnehmer, versicherten, kunden,
    mitarbeiter, schueler, schuler, personen, sujet, individu, eleve, paciente, participante,
    alumno, paziente, partecipante, studente, deelnemer, leerling, deltager, deltagare, elev,
    potilas, opiskelija, pacjent, pacjenta, uczen"""
NUMBERS = """id, ids, no, nr, num, number, nummer, numer, numero, nro, identifier, identifiant, key,
    ref, reference, uid, guid, uuid, kennung, kennziffer, pseudonym, identificador"""
WORDS: dict[Role, dict[str, str]] = {
    "direct": {
        "a person's name": """=name, =names, first name, last name, full name, given name, family
            name, middle name, maiden name, surname, forename, nickname, initials, next of kin,
            fname, lname, spouse name, doctor name, physician name, vorname, nachname,
            familienname, geburtsname, =nom, prenom, nom de famille, nom complet, =nombre,
            nombre completo, apellido, apellidos, =nome, cognome, =naam, voornaam, achternaam,
            =namn, fornamn, efternamn, =navn, fornavn, etternavn, efternavn, =nimi, etunimi,
            sukunimi, imie, nazwisko""",
        "an address": """address, addr, street, street name, house number, adresse, anschrift,
            strasse, hausnummer, =rue, direccion, calle, domicilio, indirizzo, adres, straat,
            huisnummer, adress, gatuadress, gadenavn, gateadresse, osoite, katuosoite, ulica,
            numer domu""",
        "a telephone number": """phone, telephone, tel, mobile, cell phone, cellphone, fax, phone
            number, mobile number, telefon, telefonnummer, handy, handynummer, mobil,
            mobilnummer, festnetz, portable, telefono, movil, cellulare, telefoon,
            telefoonnummer, puhelin, puhelinnumero, komorka""",
        "an e-mail address": """email, mail, email address, mail address, mailadresse, correo,
            correo electronico, courriel, posta elettronica, epost, sahkoposti""",
        "a national, tax or insurance number": """ssn, social security, social security number,
            national insurance, nino, ni number, =nhs, nhs number, nhs no, national id, national
            number, tax id, taxpayer id, citizen id, identity card, personal number, passport,
            passport number, passport no, kvnr, versichertennummer, svnr, ahv,
            krankenversicherungsnummer, krankenversichertennummer, sozialversicherungsnummer,
            rentenversicherungsnummer, steuer id, steuernummer, steueridentifikationsnummer,
            ausweisnummer, personalausweis, reisepass, passnummer, =nir, insee, numero securite
            sociale, numero de securite sociale, passeport, dni, =nie, nif, nuss, numero de
            seguridad social, pasaporte, codice fiscale, tessera sanitaria, passaporto, bsn,
            burgerservicenummer, paspoort, niss, insz, rijksregister, rijksregisternummer,
            personnummer, samordningsnummer, cpr, cpr nummer, cprnr, fodselsnummer, fnr, hetu,
            henkilotunnus, pesel, paszport, nip, health plan, health plan number, insurance
            number, insurance id, policy number, beneficiary number, medicare number, medicaid
            id""",
        "a medical record number": """mrn, medical record, medical record number, hospital number,
            chart number, health record, record number, accession number, encounter id, visit
            id, admission id, stay id, hadm id, specimen id, sample id, fallnummer, fall id,
            aktenzeichen, krankenakte, numero de dossier, ipp, historia clinica, nhc, cartella
            clinica, dossiernummer, journalnummer""",
        "an account, card, certificate or licence number": """iban, bank account, account number,
            account no, account id, =account, kontonummer, =konto, compte bancaire, numero de
            cuenta, numero di conto, rekeningnummer, bankkonto, konto bankowe, credit card, card
            number, kreditkarte, kartennummer, certificate number, licence number, license
            number, driving licence, drivers license, fuehrerschein, fuhrerschein, permis de
            conduire""",
        "a vehicle or a device": """number plate, licence plate, license plate, plate number,
            =plate, vin, vehicle id, kennzeichen, immatriculation, matricula, targa, kenteken,
            fahrgestellnummer, chassis number, device id, device serial, serial number, serial
            no, imei, imsi, mac, mac address, seriennummer, geraetenummer, geratenummer, numero
            de serie""",
        "an address or account on the internet": """url, website, web page, web address, homepage,
            =ip, ip address, ip addr, ip adresse, username, user name, =login, twitter,
            facebook, instagram, linkedin, cookie id""",
        "a picture, signature or body feature of a person": """fingerprint, biometric, biometrics,
            voiceprint, retina scan, iris scan, face id, photo, photograph, picture, portrait,
            image file, photo file, foto, lichtbild, unterschrift, signature, zdjecie""",
        "free text": """note, notes, comment, comments, remark, remarks,
            free text, freitext, bemerkung, bemerkungen, kommentar, kommentare, anmerkung,
            commentaire, commentaires, observaciones, comentarios, annotazioni, opmerking,
            opmerkingen, anteckning, merknad, huomautus, uwagi, narrative""",
        "the number of a person": """=patient, =subject, =participant, =person, =respondent,
            =student, =pupil, =passenger, =client, =individual, =proband, =teilnehmer, =schueler,
            =schuler, =paciente, =participante, =alumno, =paziente, =deelnemer, =deltager,
            =deltagare, =potilas, =pacjent""",
        "a number or code of a record": """=code, record, row, =index, seq, sequence, serial,
            barcode, token, hash, case, ticket, booking, invoice, order, row names, unnamed""",
    },
    "quasi": {
        "the date or year of birth": """dob, yob, birth date, birthday, date of birth, birth year,
            year of birth, birth month, geburtsdatum, geburtstag, geburtsjahr, gebdat, date
            naissance, date de naissance, naissance, annee de naissance, fecha nacimiento, fecha
            de nacimiento, data nascita, data di nascita, anno di nascita, geboortedatum,
            geboortejaar, fodelsedatum, fodelsear, fodselsdato, fodselsdag, fodselsar,
            syntymaaika, data urodzenia, rok urodzenia""",
        "a date in a person's life": """date, datum, dato, fecha, =year, =jahr, =annee, timestamp,
            datetime, admission date, date of admission, admission, discharge date, date of
            discharge, date of death, death date, dod, date of diagnosis, diagnosis date, visit
            date, surgery date, =discharge, aufnahmedatum, entlassungsdatum, sterbedatum,
            todesdatum, date entree, date sortie, date deces, date de deces, fecha de ingreso,
            fecha de alta, fecha de defuncion, data ricovero, data dimissione, data decesso,
            opnamedatum, ontslagdatum, overlijdensdatum, data przyjecia, data wypisu, data zgonu""",
        "an age group": """age group, age band, age cat, age category, age class, altersgruppe,
            altersklasse, groupe d age, tranche d age, grupo de edad, classe di eta,
            leeftijdsgroep, aldersgruppe""",
        "age": """age, ages, age at diagnosis, age at admission, age years, alter, edad, =eta,
            leeftijd, alder, ika, wiek, lebensalter""",
        "sex or gender": """sex, gender, geschlecht, sexe, genre, sexo, genero, sesso, genere,
            geslacht, kon, kjonn, sukupuoli, plec, male, female, salutation, anrede""",
        "ethnicity or race, which can often be seen": """race, ethnicity, ethnic, ethnic group,
            ethnie, ethnizitat, ethnizitaet, etnia, raza, razza, etniciteit, etnicitet, skin
            colour, skin color, herkunft, migrationshintergrund, ancestry""",
        "nationality, country or place of birth": """nationality, citizenship, country,
            country of birth, birth
            country, native country, birthplace, place of birth, immigrant, land, geburtsland,
            geburtsort, staatsangehorigkeit, staatsangehoerigkeit, nationalitat, nationalitaet,
            pays, nationalite, lieu de naissance, pais, nacionalidad, paese, nazionalita,
            cittadinanza, nationaliteit, geboorteland, statsborgerskap, medborgarskap,
            nationalitet, kansalaisuus, kraj, obywatelstwo, narodowosc""",
        "marital status": """marital, marital status, married, civil status, relationship,
            familienstand, zivilstand, etat civil, situation familiale, situation matrimoniale,
            estado civil, stato civile, civilstand, burgerlijke staat, sivilstand, civilstatus,
            siviilisaaty, stan cywilny""",
        "work or occupation": """occupation, job, job title, profession, employment, employer,
            employed, unemployed, workclass, work class, employment status, industry, isco,
            veteran, military, beruf, tatigkeit, taetigkeit, arbeitgeber, erwerbsstatus,
            erwerbstatigkeit, metier, emploi, ocupacion, profesion, empleo, occupazione,
            professione, lavoro, beroep, yrke, erhverv, stilling, ammatti, zawod""",
        "education": """education, educ, edu, schooling, qualification, degree, isced, bildung,
            schulabschluss, bildungsabschluss, ausbildung, etudes, niveau d etudes, diplome,
            educacion, estudios, nivel educativo, istruzione, titolo di studio, opleiding,
            opleidingsniveau, onderwijs, utbildning, uddannelse, utdanning, koulutus,
            wyksztalcenie""",
        "a postcode": """postcode, post code, postal code, postal, zip, zip code, plz, postleitzahl,
            code postal, =cp, codigo postal, =cap, postnummer, postnr, postinumero, kod pocztowy""",
        "a place": """region, county, city, town, village, municipality, district, province, =state,
            us state, state of residence, home state, neighbourhood, neighborhood, borough,
            census tract, lsoa, msoa, nuts, residence, place, location, urban, rural, ort,
            wohnort, stadt, gemeinde, landkreis, kreis, bundesland, ville, commune, departement,
            ciudad, municipio, provincia, citta, comune, regione, stad, gemeente, provincie,
            woonplaats, kommune, kommun, lan, fylke, kunta, kaupunki, miasto, miejscowosc,
            gmina, powiat, wojewodztwo, embarked, embarkation, port, boarding, destination""",
        "the home": """housing, housing type, housing tenure, tenure, dwelling, dwelling type, home
            ownership, own rent, rent or own, wohnform, wohnsituation, wohnverhaltnis, logement,
            vivienda, abitazione, woning, boform, bolig""",
        "the cabin, room or bed": """cabin, room, bed, flat, apartment, zimmer, zimmernummer, bett,
            chambre, habitacion, stanza""",
        "coordinates of a place": """lat, latitude, lon, lng, =long, longitude, gps lat, gps lon,
            breitengrad, langengrad, laengengrad, latitud, longitud, latitudine, longitudine""",
        "a point on a map": "gps, coordinates, geolocation, easting, northing, geo, koordinaten",
        "household or family": """household size, hh size, family size, children, number of
            children, n children, siblings, sib sp, parch, dependents, kids, haushaltsgrosse,
            haushaltsgroesse, kinder, anzahl kinder, enfants, nombre d enfants, nombre enfants,
            hijos, figli, kinderen, barn, lapset, dzieci, twin, twins, birth order""",
        "the health insurer": "insurer, payer, health insurance, krankenkasse, mutuelle, insurance",
        "body height": """height, stature, body height, korpergrosse, koerpergroesse, grosse,
            groesse, taille, estatura, talla, altezza, lengte, langd, hoyde, hojde, pituus,
            wzrost""",
        "body weight or looks": """body weight, weight kg, birth weight, korpergewicht,
            koerpergewicht, eye colour, eye color, hair colour, hair color, handedness, shoe
            size""",
        "body weight": """weight, wt, wgt, gewicht, poids, peso, vikt, vekt, vaegt, vagt, paino,
            waga""",
        "language": """=language, mother tongue, native language, first language, home language,
            sprache, muttersprache, langue, idioma, lingua, moedertaal, taal, sprak, modersmal,
            kieli, aidinkieli, jezyk""",
        "travel or social class": """=class, pclass, travel class, passenger class, ticket class,
            social class, ses, socioeconomic status, deprivation, imd, soziale
            schicht, classe sociale, clase
            social""",
    },
    "sensitive": {
        "illness or a diagnosis": """diagnosis, diagnoses, diag, dx, icd, icd 10, icd 9, disease,
            illness, comorbidity, charlson, comorbidities, symptom, symptoms, cancer, tumour,
            tumor, carcinoma, cancer stage, tumour stage, tumor stage, diabetes,
            diabetic, hypertension, asthma, copd, stroke,
            infarction, heart disease, hiv, aids, stds, hepatitis, covid, covid 19,
            infection, syphilis, tuberculosis, dementia, epilepsy, allergy, allergies,
            disability, disabled, injury, drg, diagnose, diagnosen, erkrankung, krankheit,
            befund, behinderung, maladie, diagnostic, diagnostico, enfermedad, diagnosi,
            malattia, ziekte, aandoening, sjukdom, sygdom, sykdom, diagnoosi, sairaus, choroba,
            rozpoznanie""",
        "mental health": """mental, mental health, depression, anxiety, psychiatric, psychiatry,
            phq, phq 9, gad 7, suicide, suicidal, schizophrenia, autism, adhd, psychisch, psyche""",
        "treatment or care": """medication, medications, drug, drugs, medicine, treatment, therapy,
            prescription, dose, dosage, insulin, metformin, surgery, operation, procedure,
            procedures, biopsy, transplant, vaccine, vaccination, vaccinated, lab, labs, icu,
            atc, length of stay, los, readmitted, readmission, medikament,
            medikamente, arzneimittel,
            behandlung, therapie, traitement, medicament, medicamento, tratamiento, farmaco,
            trattamento, terapia, medicijn, behandeling, lakemedel, behandling, laake, lek, leki""",
        "a health measurement": """glucose, hba1c, a1c, cholesterol, chol, hdl, ldl, triglycerides,
            creatinine, haemoglobin, hemoglobin, blood pressure, systolic, diastolic, sbp, dbp,
            bp, bmi, body mass index, nyha, ecog, karnofsky, gcs, sofa, eq5d, sf36,
            pulse, heart rate, crp, wbc, viral load, cd4, egfr, blood
            group, blood type, lab value, test result, blutdruck, blutzucker, cholesterin,
            blutgruppe, tension arterielle, glycemie, glucosa, colesterol, glicemia,
            colesterolo, bloeddruk, blodtryck, blodtryk, verenpaine, cisnienie""",
        "pregnancy or sexual life": """pregnancy, pregnancies, pregnant, gravida, parity, abortion,
            miscarriage, contraceptive, contraceptives, fertility, sexual, sexual orientation,
            sexual partners, sex partners, transgender, gender identity, schwanger,
            schwangerschaft, sexuelle orientierung, grossesse, enceinte, embarazo, embarazada,
            gravidanza, zwanger, zwangerschap, gravid, ciaza""",
        "survival, death or another outcome": """survived, survival, death, died, dead, deceased,
            alive, mortality, vital status, outcome, cause of death, verstorben, gestorben, tod,
            todesursache, uberlebt, ueberlebt, deces, decede, fallecido, muerte, deceduto,
            morte, overleden, kuollut, zgon""",
        "genes": """genetic, genetics, gene, genotype, genome, mutation, snp, allele, brca, brca1,
            brca2, apoe, dna, karyotype, genetik""",
        "smoking, drinking or drug use": """smoking, smoker, smokes, smoke, tobacco, cigarettes,
            pack years, alcohol, drinking, drinker, drug use, substance, substance use,
            cannabis, opioid, opioids, addiction, rauchen, raucher, alkohol, tabac, tabagisme,
            fumeur, alcool, fumador, tabaco, fumo, fumatore, roken, rookt, rokning, rokare,
            rygning, royking, tupakointi, palenie""",
        "religion, politics or trade union, which the law protects specially": """religion,
            religious, faith, denomination, religionszugehorigkeit, konfession, religione,
            religie, godsdienst, uskonto, religia, wyznanie, political, political party, party,
            politics, vote, voted, partei, trade union, union, union member, gewerkschaft,
            syndicat, sindicato, sindacato, vakbond, fagforening""",
        "crime or violence": """crime, criminal, criminal record, conviction, convicted, offence,
            offense, arrest, prison, prison sentence, recidivism, violence, abuse, victim, straftat,
            vorstrafe, condamnation, delito, reato""",
        "money": """income, salary, wage, wages, earnings, charge, charges, cost, costs, fare,
            price, debt, loan, credit, credit score, balance, wealth, capital gain, capital
            loss, tax, benefit, benefits, welfare, pension, payment, einkommen, gehalt, lohn,
            vermogen, vermoegen, schulden, kosten, revenu, salaire, ingreso, ingresos, salario,
            sueldo, reddito, stipendio, inkomen, salaris, loon, inkomst, inntekt, indkomst,
            palkka, tulot, dochod, zarobki, wynagrodzenie""",
        "a result of an examination": """exam, exams, exam score, test score,
            marks, gpa, iq, prufungsergebnis, pruefungsergebnis, examen, calificacion,
            voto,
            betyg, karakter""",
    },
    "weight": {
        "a survey weight": """survey weight, sampling weight, sample weight, design weight, analysis
            weight, final weight, person weight, household weight, pweight, finalwt, fnlwgt,
            weighting, weight factor, survey wt, sample wt, svy weight, hochrechnungsfaktor,
            gewichtung, gewichtungsfaktor, ponderation, poids de sondage, factor de expansion,
            ponderacion, peso campionario, weegfactor, wegingsfactor, vikt survey, waga
            analityczna""",
    },
    "cluster": {
        "a school, household, site or other group": """school, classroom, teacher, household, hh,
            family, family id, fam id, site, centre, center, hospital, clinic, ward, department,
            practice, facility, institution, cluster, psu, strata, stratum, batch, interviewer,
            provider, physician, doctor, consultant, surgeon, nurse, hh id, therapist,
            schule, schulklasse, zentrum, klinik,
            krankenhaus, station, haushalt, praxis, abteilung, arzt, ecole, hopital, menage,
            foyer, escuela, centro, hogar, ospedale, scuola, reparto, famiglia, ziekenhuis,
            huishouden, afdeling, skola, sjukhus, sygehus, sykehus, skole, husholdning,
            sairaala, koulu, szpital, szkola, oddzial, gospodarstwo""",
    },
}
ENDINGS: dict[str, str] = {
    **dict.fromkeys(("nummer", "number", "kennung", "nr"), "a number or code of a record"),
    **dict.fromkeys(("datum", "dato"), "a date in a person's life"),
    "exam": "a result of an examination",
}
"""Ends of compound words, and what they speak of where the word itself is not known."""

_LETTERS = str.maketrans({"ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "ł": "l", "Ł": "L", "ß": "ss"})


def remove_accents(text: str) -> str:
    """The text in plain letters, so that one spelling in our lists finds them all.

    Examples
    --------
    >>> remove_accents("Größe, płeć")
    'Grosse, plec'
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign))
