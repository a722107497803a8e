"""Words for "no value" among numbers and dates: not applicable, refused, not known.

In text they are text: `N` may be Norway, north or no. Among numbers they are what a questionnaire
or a statistical office writes where there is no number. Words of a laboratory (`ND`, `nil`, `<5`)
are not among them: they say that a value is small.
"""

from __future__ import annotations

import re
import unicodedata

_LIST = """
    n, bb, bbb, bbbb, bbbbb, ?, ??, --, ---, .., ..., :, #n/a, #null!, (null),
    n.a., na., n. a., not applicable, does not apply, inapplicable, inapp, inap, iap, n/appl,
    refused, refuse, refusal, ref, rf, declined, declined to answer, prefer not to say,
    prefer not to answer, don't know, dont know, do not know, don't know/refused, dk, d.k., dk/na,
    dk/rf, dk/ref, can't say, no answer, no response, no reply, nonresponse, non-response,
    not answered, not asked, not ascertained, not stated, not reported, not recorded,
    not available, not known, not specified, unavailable, unknown, unk, unspecified, missing, miss,
    mis, blank, skip, skipped, legitimate skip, valid skip, valid skip (n/a),
    k.a., k. a., keine angabe, keine angaben, keine antwort, weiss nicht, verweigert,
    trifft nicht zu, nicht zutreffend, entfallt, entfaellt, unbekannt, fehlend, fehlt, ohne angabe,
    o.a., refus, ne sait pas, nsp, non concerne, sans objet, s.o., inconnu, non renseigne,
    non repondu, pas de reponse, manquant, non disponible,
    no sabe, no contesta, ns/nc, nsnc, no aplica, desconocido, sin datos, sin dato, rehusa,
    non sa, non risponde, non applicabile, sconosciuto, rifiuta, mancante, non disponibile,
    weet niet, geen antwoord, niet van toepassing, nvt, n.v.t., onbekend, geweigerd, ontbreekt,
    vet ej, vet inte, ej svar, inget svar, ej tillampligt, uppgift saknas, saknas, okand,
    ved ikke, ikke oplyst, uoplyst, ukendt, vet ikke, ikke svart, ubesvart, ukjent, ikke relevant,
    ei tietoa, en osaa sanoa, eos, ei vastausta, tuntematon, puuttuu,
    nie wiem, brak danych,
    brak odpowiedzi, brak, odmowa, nie dotyczy, nieznane, trudno powiedziec"""
_WORDS = frozenset(" ".join(word.split()) for word in _LIST.split(","))
MOST = 5
"""Different words for "no value" that a variable may have; more of them are categories."""


def is_word_for_missing(text: str) -> bool:
    """Whether a text among numbers only says that there is none, whatever its case and accents.

    Examples
    --------
    >>> is_word_for_missing("Refused"), is_word_for_missing("weiß nicht"), is_word_for_missing("<5")
    (True, True, False)
    """
    folded = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
    folded = "".join(sign for sign in folded if not unicodedata.combining(sign))
    return re.sub(r"[\s_]+", " ", folded).strip() in _WORDS
