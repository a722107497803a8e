from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.utility.models.formula import FUNCTIONS, read_formula

GOOD = {
    "y ~ x": "v0 ~ v1",
    "y ~ C(class) + log(`length of stay`)": "v0 ~ C( v1 ) + log( v2 )",
    "log (y) ~ x*z - 1": "log( v0 ) ~ v1 * v2 - 1",
    "y ~ (x + z)^2 + I(x^2)": "v0 ~ ( v1 + v2 ) ** 2 + I( v1 ** 2 )",
    "y ~ poly(x, 2):z": "v0 ~ poly( v1 , 2 ) : v2",
    "größe ~ 0 + größe_2": "v0 ~ 0 + v1",
}
BAD = {
    "y ~ __import__('os').system('true')": "cannot be read at",
    "y ~ __import__(os)": "calls '__import__'",
    'y ~ I(open("x"))': "cannot be read at",
    "y ~ eval(x)": "calls 'eval'",
    "y ~ x.values": "cannot be read at",
    "y ~ x[0]": "cannot be read at",
    "y ~ {x + 1}": "cannot be read at",
    "y ~ (lambda: 0)()": "nothing between",
    "y ~ I(x if x else 3)": "nothing between",
    "y ~ x; z": "cannot be read at",
    "y ~ 'x'": "cannot be read at",
    "y ~ np.log(x)": "cannot be read at",
    "y ~ .": "cannot be read at",
    "y ~ I(9**9)": "power",
    "y ~ I((x)**9**9)": "power",
    "y ~ (a + b + c)^99": "power",
    "y ~ x^z": "power",
    "y ~ x^": "power",
    "y ~ a*b*c*d*e*f*g*h*i": "more than 6 products",
    "y ~ ((((((x))))))": "brackets",
    "y ~ (x": "brackets",
    "y ~ x)": "brackets",
    "(y ~ x)": "brackets",
    "y": "one ~",
    "y ~ x ~ z": "one ~",
    "~ x": "no outcome",
    "1 ~ 1": "no variable",
    "y ~ C(x + z)": "one variable inside C",
    "y ~ poly(x, z)": "poly(variable, degree)",
    "y ~ I(x, 2)": "comma",
    "y ~ Log(x)": "did you mean 'log'",
    "y ~ " + "x + " * 1000: "at most 2000",
}


@pytest.mark.parametrize("text", GOOD)
def test_what_may_stand_in_a_formula(text):
    assert read_formula(text).write_with_aliases() == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_what_may_not(text):
    with pytest.raises(ValueError, match=r".") as error:
        read_formula(text)
    assert BAD[text] in str(error.value)


@given(st.text(alphabet="yxC~+*^():`'\"[]{}.,;_09 \n=@%|&<>!#\\", max_size=30))
def test_nothing_but_known_tokens_comes_out(text):
    try:
        read = read_formula(text)
    except ValueError:
        return
    allowed = {f"v{at}" for at in range(len(read.variables))} | set(FUNCTIONS)
    for part in read.write_with_aliases().replace("(", " ( ").split():
        assert part in allowed or part in set("+-*/:~(),") | {"**"} or part[0].isdigit()


def test_terms_get_their_names_back_whatever_these_are():
    read = read_formula("y ~ C(`v0`)*x + poly(v1, 2)")
    labels = {"v0": ["a", "v2[T.1]"]}
    assert read.variables == ("y", "v0", "x", "v1")
    assert read.name_column("C(v1)[T.1]:v2", labels) == "C(v0)[T.v2[T.1]]:x"
    assert read.name_column("poly(v3, 2)[1]", labels) == "poly(v1, 2)[1]"
    assert read.name_column("Intercept", labels) == "Intercept"
