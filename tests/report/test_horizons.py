"""How forecasts fared by horizon: from the learner's record to the page."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.app.report import write
from rmcvi.app.run.horizons import horizon_rows
from rmcvi.contract import ByHorizon
from tests.report._runs import make


def record(columns: int) -> ByHorizon:
    """Two ranges of horizons with values, and one without; the last column has none at all."""
    count = jnp.array([[4.0] * columns, [2.0] * columns, [0.0] * columns]).at[:, 1:].set(0.0)
    return ByHorizon((1, 2, 4, 8), count, 9.0 * count, 16.0 * count, 25.0 * count, 0.5 * count)


def test_errors_are_in_the_unit_of_the_column() -> None:
    tables = horizon_rows(record(1), ["a"], np.array([9.0]))
    assert tables is not None and set(tables) == {""}
    near, far = tables[""]
    assert (near["from"], near["to"], far["from"], far["to"]) == (1, 1, 2, 3)
    assert (near["values"], far["values"]) == (4, 2)
    for row in (near, far):
        errors = row["rmse"], row["last_value_rmse"], row["season_rmse"]
        assert errors == pytest.approx((3.0, 4.0, 5.0)) and row["coverage"] == 0.5


def test_of_several_columns_they_are_in_standard_deviations() -> None:
    """A constant column counts for nothing; each has a table in its own unit."""
    tables = horizon_rows(record(2), ["a", "b"], np.array([9.0, 0.0]))
    assert tables is not None
    assert tables[""][0]["rmse"] == pytest.approx(1.0)
    assert tables["a"][0]["rmse"] == pytest.approx(3.0) and tables["b"] == []
    assert horizon_rows(None, ["a"], np.ones(1)) is None


def test_the_page_has_the_table_that_learn_wrote(tmp_path: Path) -> None:
    """And none if there is no record, or too short a one, or if it is not one of ours."""
    folder = make(tmp_path, rows=30, columns=1)
    assert 'id="horizons"' not in write(folder).read_text(encoding="utf-8")
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    tables = horizon_rows(jax.tree.map(lambda v: 10.0 * v, record(1)), ["co"], np.ones(1))
    path.write_text(json.dumps(summary | {"horizons": tables}))
    page = write(folder).read_text(encoding="utf-8")
    table = page.split('id="horizons"')[1].split("</table>")[0]
    assert table.count("<tr>") == 3
    assert all(part in table for part in ("2\u20133", "50.0\u202f%", ">20<"))
    few = horizon_rows(record(1), ["co"], np.ones(1))
    for other in (few, {"": [{"from": "<b>"}, 3]}):
        path.write_text(json.dumps(summary | {"horizons": other}))
        assert 'id="horizons"' not in write(folder).read_text(encoding="utf-8")
