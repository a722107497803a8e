"""The job of the how-to page, run by the local mock client of vantage6 where it is installed."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import statsmodels.formula.api as smf
from tests.docs.blocks import ROOT, blocks
from tests.sites.examples import make_request, make_sites, unite


@pytest.mark.study
@pytest.mark.filterwarnings("ignore")
def test_the_job_on_the_page_gives_the_estimates_of_the_united_records(tmp_path, monkeypatch):
    mock_client = pytest.importorskip(
        "vantage6.algorithm.tools.mock_client", reason="vantage6-algorithm-tools is not installed"
    )
    page = ROOT / "docs/how-to/several-sites.md"
    (job,) = [block for block in blocks(page) if block.title == "sfumato_job.py"]
    module = ModuleType("sfumato_job")
    monkeypatch.setitem(sys.modules, "sfumato_job", module)
    exec(compile(job.text, "sfumato_job.py", "exec"), module.__dict__)  # noqa: S102 - ours
    monkeypatch.setenv("SFUMATO_LOG", str(tmp_path))
    client = mock_client.MockAlgorithmClient(
        datasets=[[{"database": data.frame.to_pandas()}] for data in make_sites().values()],
        module="sfumato_job",
    )
    request = make_request(
        {"name": "m", "kind": "model", "formula": "died ~ age + sex", "family": "logistic"}
    )
    task = client.task.create(
        input_={"method": "central", "kwargs": {"request": request.plain()}}, organizations=[0]
    )
    (results,) = client.wait_for_results(task["id"])
    fitted = smf.logit("died ~ age + sex", unite("North", "South").to_pandas()).fit(disp=False)
    estimates = {term["term"]: term["estimate"] for term in results["models"]["m"]["terms"]}
    assert np.allclose([estimates[name] for name in fitted.params.index], fitted.params, rtol=1e-5)
    assert results["contributions"]["m"] == ["site 0", "site 1"]
