"""The rules of the house, and what an output says of itself."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from sfumato.errors import PlanError
from sfumato.outputs import Output, OutputRefused, Rules, digest_of, worst


def test_defaults_are_the_safe_ones_and_come_back_from_a_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('k = 5\ndominance = [2, 0.9]\np_percent = false\nzeros = "show"\n')
    rules = Rules.load(path)
    assert (rules.k, rules.dominance, rules.p_percent, rules.zeros) == (5, (2, 0.9), None, "show")
    assert rules.records == Rules().records
    assert rules.plain()["p_percent"] is None
    assert Rules(**rules.plain()) == rules


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("k = 2", "'k' parameter of Rules must be greater than or equal to 3"),
        ("recrods = 5", "did you mean 'records'"),
        ("p_percent = 2", "p_percent"),
        ('zeros = "keep"', "zeros"),
        ("dominance = [0, 0.5]", "dominance"),
        ("k = = 2", "not valid TOML"),
    ],
)
def test_wrong_rules_say_what_was_expected(tmp_path, text, match):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=match):
        Rules.load(path)


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path):
    with pytest.raises(PlanError, match="no file of rules"):
        Rules.load(tmp_path / "none.toml")
    (tmp_path / "rules.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="UTF-8"):
        Rules.load(tmp_path / "rules.toml")


def test_an_output_never_holds_a_key_nor_an_unknown_verdict():
    with pytest.raises(PlanError, match="never holds the key"):
        Output(kind="histogram", title="Age", rule={"key": "00"})
    with pytest.raises(PlanError, match="pass, review, refuse"):
        Output(kind="histogram", title="Age", verdict="fine")  # type: ignore[arg-type]
    output = Output(kind="histogram", title="Age", variables="age", rule={"k": 3})  # type: ignore[arg-type]
    assert output.variables == ("age",)
    with pytest.raises(TypeError):
        output.rule["k"] = 1  # type: ignore[index]


def test_a_rule_is_kept_as_plain_values():
    rule = {"k": np.int64(3), "limits": (np.float64(0.5), None), "method": Rules, "deep": {1: 2}}
    told = Output(kind="box", title="Age", rule=rule).plain()["rule"]
    assert json.loads(json.dumps(told))["limits"] == [0.5, None]
    assert told["k"] == 3
    assert told["deep"] == {"1": 2}


def test_the_worst_verdict_counts_and_a_refusal_leaves_with_3():
    assert worst(["pass", "refuse", "review"]) == "refuse"
    assert worst([]) == "pass"
    assert OutputRefused.exit_code == 3


def test_a_digest_tells_tables_apart():
    one = pl.DataFrame({"a": [1.0, None]})
    assert digest_of(one) == digest_of(one.clone())
    assert digest_of(one) != digest_of(one.rename({"a": "b"}))
    assert digest_of(one) != digest_of(pl.DataFrame({"a": [1.0, 0.0]}))
