"""Names of variables in well-known surveys, and what they stand for.

Such names are codes: `AGEP` is an age in the American Community Survey and `PB190` the marital
status in EU-SILC. They come from the surveys' own codebooks. A `#` stands for any digit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sfumato.schema import Kind
from sfumato.schema.inference.names import LOOSE_NEEDS, SIGNS, Sign

_SURVEYS: dict[str, dict[str, str]] = {
    "the American Community Survey": {
        "age": "agep",
        "sex or gender": "sex",
        "marital status": "mar msp",
        "ethnicity or race, which can often be seen": """hisp rac1p rac2p rac3p racblk racwht racasn
            anc1p anc2p""",
        "nationality, country or place of birth": "pobp cit nativity waob natvty",
        "a place": "puma puma10 puma20 powpuma migpuma migsp powsp division",
        "the population density of the area": "density",
        "household or family": "noc npf nrc np",
        "the kind of household": "npp hht hht2 hhl partner oc rc relp relshipp nop",
        "the home": "housing_type own_rent ten bld typehugq",
        "work or occupation": "indp indp_cat occp naicsp socp cow esr wkl jwtr jwtrns mil",
        "hours of work": "wkhp wkwn",
        "education": "edu schl schg sch fod1p",
        "a person's own language": "lanp lanx eng",
        "an income group": "pincp_decile fs",
        "money": """pincp povpip pernp wagp semp intp retp ssp ssip pap oip hincp fincp
            grntp valp mrgp""",
        "a disability": "dvet drem dphy deye dear dout ddrs dis dratx drat",
        "a survey weight": "pwgtp wgtp pwgtp# pwgtp## wgtp# wgtp##",
        "the number of a household": "serialno",
    },
    "EU-SILC": {
        "the date or year of birth": "rb070 rb080 pb130 pb140 rb031",
        "age": "rb081 rb082 rx010 rx020 px020",
        "sex or gender": "rb090 pb150",
        "marital status": "pb190 pb200",
        "nationality, country or place of birth": "pb210 pb220 pb220a pb220b rb280 rb290",
        "a place": "rb020 pb020 hb020 db020 db040 db100",
        "household or family": "hx040 hx050 hsize",
        "the kind of household": "hx060 rb110 hb110 hb120",
        "the home": "hh010 hh020 hh021 hh030 hh031",
        "work or occupation": """rb210 pl020 pl025 pl030 pl031 pl032 pl040 pl050 pl051
            pl110 pl111 pl130 pl140 pl150 pl190 pl200""",
        "hours of work": "pl060 pl100",
        "education": "pe010 pe020 pe030 pe040 pe041",
        "a health measurement": "ph010 ph020 ph030 ph040 ph050 ph060 ph070 ph110 ph120",
        "money": """py###g py###n py### hy###g hy###n hy### hx080 hx090 rx070 hh060 hh070 hs###
            eqincome eqss""",
        "a survey weight": """rb050 rb060 rb062 rb063 rb064 pb040 pb050 pb060 pb080 db080 db090
            db095""",
        "the number of a person": "rb030 pb030 rb220 rb230 rb240 hb070 hb080 pb180",
        "the number of a household": "db030 hb030 rb040 px030",
        "a school, household, site or other group": "db050 db060 db062 db070",
        "the year or wave of a survey": "db010 hb010 pb010 rb010 db075 hb050 hb060 pb100 pb110",
    },
    "the European Social Survey": {
        "the date or year of birth": "yrbrn mnthbrn",
        "age": "agea",
        "sex or gender": "gndr",
        "marital status": "maritalb marsts rshpsts",
        "ethnicity or race, which can often be seen": "blgetmg anctry1 anctrya1",
        "nationality, country or place of birth": """brncntr ctzcntr cntbrthd ctzshipd livecnta
            facntr""",
        "a place": "cntry region regunit domicil",
        "household or family": "hhmmb chldhm chldhhe",
        "work or occupation": "mnactic isco08 nacer2 emplrel pdwrk uemp3m",
        "hours of work": "wkhct wkhtot",
        "education": "eisced edulvlb edlvdie",
        "years of education": "eduyrs",
        "a person's own language": "lnghom1 lnghom2",
        "religion, politics or trade union, which the law protects specially": """rlgblg rlgdnm
            rlgatnd rlgdgr pray lrscale clsprty mbtru vote trstplt trstprl""",
        "a health measurement": "health hlthhmp",
        "an income group": "hinctnta hincfel hincsrca",
        "a survey weight": "dweight pspwght pweight anweight",
        "the number of a person": "idno",
        "a school, household, site or other group": "psu stratum intnum",
        "the year or wave of a survey": "essround edition proddate",
    },
    "the European Labour Force Survey": {
        "the date or year of birth": "yearbir monbir",
        "age": "age age_grp",
        "sex or gender": "sex",
        "marital status": "marstat",
        "nationality, country or place of birth": "national countryb citizenship cobfath yearesid",
        "a place": "region region_2d regionw countryw degurba",
        "household or family": "hhnbpers",
        "the kind of household": "hhlink hhspou hhtype hhcomp",
        "work or occupation": """ilostat wstator stapro nace1d nace2d nace3d isco1d isco2d isco3d
            isco4d ftpt mainstat""",
        "hours of work": "hwusual hwactual",
        "education": "hatlev1d hatlevel hatfield hat11lev hat97lev",
        "an income group": "incdecil",
        "money": "incgross incmon",
        "a survey weight": "coeff coeffy coeffq coeffhh coeffwave",
        "the number of a household": "hhnum hhseqnum qhhnum",
        "the year or wave of a survey": "refyear refweek refmonth intweek",
    },
    "NHANES": {
        "age": "ridageyr ridagemn ridageex dmdhrage dmdhragz ridexagy ridexagm",
        "sex or gender": "riagendr dmdhrgnd",
        "marital status": "dmdmartl dmdmartz dmdhrmar dmdhrmaz",
        "ethnicity or race, which can often be seen": "ridreth1 ridreth2 ridreth3",
        "nationality, country or place of birth": "dmdborn dmdborn2 dmdborn4 dmdcitzn dmdyrusz",
        "household or family": "dmdhhsiz dmdfmsiz dmdhhsza dmdhhszb dmdhhsze",
        "work or occupation": "dmqmiliz dmqmilit ocd150",
        "education": "dmdeduc2 dmdeduc3 dmdhredu dmdhredz",
        "pregnancy or sexual life": "ridexprg rhd### rhq### sxq### sxd###",
        "an income group": "indhhin2 indfmin2 indhhinc",
        "money": "indfmpir",
        "body height": "bmxht",
        "body weight or looks": "bmxwt",
        "a health measurement": """bmxbmi bmxwaist bpxsy# bpxdi# bpxpls lbxtc lbxglu lbxgh lbdhdd
            lbxtr""",
        "illness or a diagnosis": "mcq### mcq###a mcq###b diq### bpq### hsd### huq###",
        "mental health": "dpq###",
        "smoking, drinking or drug use": "smq### alq### duq###",
        "a survey weight": "wtint2yr wtmec2yr wtsaf2yr wtint4yr wtmec4yr wtintprp wtmecprp",
        "the number of a person": "seqn",
        "a school, household, site or other group": "sdmvpsu sdmvstra",
        "the year or wave of a survey": "sddsrvyr ridstatr ridexmon",
    },
    "IPUMS": {
        "the date or year of birth": "birthyr birthmo",
        "sex or gender": "sex",
        "marital status": "marst marrno",
        "ethnicity or race, which can often be seen": "race raced hispan hispand ancestr1",
        "nationality, country or place of birth": "bpl bpld citizen yrimmig yrsusa1 nativity mbpl",
        "a place": "statefip stateicp countyfip countyicp metarea metro met2013 citypop migplac1",
        "household or family": "famsize nchild nchlt5 nsibs eldch yngch numprec",
        "the kind of household": "relate related",
        "the home": "gq ownershp ownershpd rooms bedrooms unitsstr",
        "work or occupation": """empstat empstatd labforce classwkr occ occ1950 occ1990 occ2010 ind
            ind1950 ind1990 vetstat""",
        "hours of work": "uhrswork wkswork1",
        "education": "educ educd school",
        "money": "inctot incwage ftotinc hhincome poverty incearn incss incwelfr rent valueh",
        "a disability": "diffrem diffphys diffmob diffcare diffsens diffeye diffhear",
        "a survey weight": "perwt hhwt asecwt wtfinl earnwt slwt",
        "the number of a household": "serial",
        "the number of a person": "cpsidp pernum cpsid",
        "a school, household, site or other group": "strata cluster",
        "the year or wave of a survey": "datanum multyear",
    },
    "BRFSS": {
        "age": "_age80",
        "an age group": "_age_g _ageg5yr _age65yr",
        "sex or gender": "sexvar sex1 _sex birthsex",
        "marital status": "marital",
        "ethnicity or race, which can often be seen": """_race _imprace _racegr3 _racegr4 _hispanc
            _prace1""",
        "a place": "_state _metstat _urbstat",
        "household or family": "children numadult hhadult _chldcnt",
        "work or occupation": "employ1 veteran3",
        "education": "educa _educag",
        "an income group": "income2 income3 _incomg _incomg1",
        "a health measurement": "genhlth physhlth _bmi5 _bmi5cat htm4 wtkg3",
        "mental health": "menthlth addepev2 addepev3",
        "illness or a diagnosis": """diabete3 diabete4 cvdinfr4 cvdcrhd4 cvdstrk3 asthma3 chccopd2
            havarth4""",
        "smoking, drinking or drug use": "smoke100 _smoker3 drnkany5 drnkany6 _rfbing5",
        "a survey weight": "_llcpwt _wt2rake",
        "the number of a record": "seqno",
        "a school, household, site or other group": "_psu _ststr",
    },
    "a British survey": {
        "age": "dvage age_dv dhager indager",
        "sex or gender": "sex sex_dv dhsex",
        "marital status": "marsta marstat mastat_dv marstat_dv livesp",
        "ethnicity or race, which can often be seen": "ethn_dv racel_dv ethuk ethukeul",
        "nationality, country or place of birth": "ukborn cryox7 natox7 bornuk_dv",
        "a place": "gor_dv govtof govtof2 gor urban_dv uresmc",
        "household or family": "hhsize nkids_dv hhtype_dv depch_dv",
        "work or occupation": """jbstat inecac05 soc10m soc20m indc07m jbsoc00_cc jbnssec8_dv statr
            ilodefr""",
        "education": "hiqual_dv hiqul15d hiqul22d qfhigh_dv edage levqul15",
        "money": "fimnnet_dv fimngrs_dv fihhmnnet1_dv grsswk netwk hourpay paynu_dv",
        "a health measurement": "sf1 scsf1 sf12pcs_dv sf12mcs_dv scghq1_dv",
        "a survey weight": "indinus_xw indinub_xw indscub_xw hhdenub_xw pwt##",
        "the number of a person": "pidp idauniq caseno",
        "the number of a household": "hidp",
    },
    "a German survey": {
        "the date or year of birth": "gebjahr gebmonat geburt",
        "age": "d11101 ef44 ef44_1",
        "sex or gender": "sex d11102ll ef46",
        "marital status": "pgfamstd d11104 mstat ef49",
        "nationality, country or place of birth": "pgnation corigin migback germborn ef368",
        "a place": "bula bula_h sampreg l11101 l11102 land eastwest gkpol gkbik ef1",
        "household or family": "d11106 d11107 hhgr dh04 ef663",
        "work or occupation": "pgemplst pgstib pgisco08 pgnace e11102 e11103 ef130",
        "hours of work": "e11101",
        "education": "pgisced11 pgisced97 d11108 ef310 ef312",
        "years of education": "pgbilzeit d11109",
        "money": "pglabgro pglabnet i11101 i11102 i11103 i11110 hlc0005 inc incc di01a ef436 ef707",
        "a health measurement": "m11126 m11124 ple0008",
        "a survey weight": "phrf hhrf phrf0 hhrf0 w11101 w11102 w11105 wghtpew wghtpt ef952",
        "the number of a person": "pid pnr persnr respid mergeid",
        "the number of a household": "hid hhnr hhnrakt cid",
        "the year or wave of a survey": "syear welle",
    },
}
_ALONE = 4
"""Letters and digits that a name must have to be known by itself."""
_CERTAIN = 3
"""Codes of one survey that tell that the table is from it."""


def _build_signs() -> dict[str, Sign]:
    """What the names stand for: the signs of readable names, and a few that these do not give."""
    work, home = SIGNS["work or occupation"], SIGNS["household or family"]
    more = (
        replace(work, what="hours of work", kind="integer"),
        replace(SIGNS["education"], what="years of education", kind="integer"),
        replace(home, what="the kind of household", kind="nominal"),
        replace(SIGNS["money"], what="an income group", kind="ordinal"),
        replace(SIGNS["illness or a diagnosis"], what="a disability"),
        replace(SIGNS["a place"], what="the population density of the area", kind="continuous"),
        replace(SIGNS["language"], what="a person's own language"),
        replace(SIGNS["a number or code of a record"], what="the number of a record"),
        replace(
            SIGNS["a school, household, site or other group"], what="the number of a household"
        ),
        Sign(role="other", what="the year or wave of a survey", phrases=(), kind="integer"),
    )
    coded: dict[str, Kind] = {"work or occupation": "nominal", "a place": "nominal"}
    signs = SIGNS | {sign.what: sign for sign in more}
    return signs | {what: replace(signs[what], kind=kind) for what, kind in coded.items()}


_PREFIX = re.compile(r"^[a-n]_(?=.{3})")  # waves of Understanding Society


def _build_index() -> dict[str, list[tuple[str, Sign]]]:
    index: dict[str, list[tuple[str, Sign]]] = {}
    signs = _build_signs()
    for survey, codes in _SURVEYS.items():
        for what, names in codes.items():
            known = replace(
                signs[what],
                needs=LOOSE_NEEDS.get(what, signs[what].needs),
                coded=True,
                says=f"In {survey} its name stands for",
            )
            for name in names.split():
                index.setdefault(name, []).append((survey, known))
    return index


_INDEX = _build_index()


def add_survey_signs(signs: Mapping[str, Sequence[Sign]]) -> dict[str, list[Sign]]:
    """Add what names stand for in well-known surveys to what their words speak of.

    Codes that no word explains tell which survey it is. Where three of the same survey stand in a
    table, they come before the words. A name of three letters needs another of its survey, and so
    does one that several surveys have.

    Examples
    --------
    >>> signs = add_survey_signs({"AGEP": [], "MSP": [], "note": []})
    >>> {name: [sign.what for sign in found] for name, found in signs.items()}
    {'AGEP': ['age'], 'MSP': ['marital status'], 'note': []}
    """
    entries = {name: known for name in signs if (known := _look_up(name))}
    unexplained = [known for name, known in entries.items() if not signs[name]]
    counts = Counter(survey for known in unexplained for survey, _ in known)
    added = {name: list(of_name) for name, of_name in signs.items()}
    for name, known in entries.items():
        survey, sign = max(known, key=lambda entry: counts[entry[0]])
        if counts[survey] >= _CERTAIN:
            added[name].insert(0, sign)
        elif counts[survey] > 1 or (len(name) >= _ALONE and len(known) == 1):
            added[name].append(sign)
    return added


def _look_up(name: str) -> list[tuple[str, Sign]]:
    folded = name.strip().casefold()
    for form in (folded, _PREFIX.sub("", folded)):
        if known := _INDEX.get(form) or _INDEX.get(re.sub(r"\d", "#", form)):
            return known
    return []
