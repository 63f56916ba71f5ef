import io
import os
import urllib.error
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rmcvi.app.sources import AirQuality, DataError, air_quality, doctor, read
from rmcvi.app.sources.uci import _check

HEADER = (
    "Date;Time;CO(GT);PT08.S1(CO);NMHC(GT);C6H6(GT);PT08.S2(NMHC);NOx(GT);PT08.S3(NOx);NO2(GT);"
    "PT08.S4(NO2);PT08.S5(O3);T;RH;AH;;"
)
SMALL = "\r\n".join(
    [
        HEADER,
        *(
            f"{10 + h // 24}/03/2004;{h % 24:02d}.00.00;{h},5;1{h}0;-200;1{h},9;1046;166;1056;"
            f"{'-200' if h % 3 else 113};1692;1268;13,6;48,9;0,{h}578;;"
            for h in range(10, 40)
        ),
        *[";" * 16] * 5,
        "",
    ]
)


def _real() -> Path:
    beside = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
    file = Path(os.environ.get("RMCVI_AIR_QUALITY") or beside / "AirQualityUCI.csv")
    if not file.is_file():
        pytest.skip("no AirQualityUCI.csv: set RMCVI_AIR_QUALITY")
    return file


def _packed(text: str, name: str = "AirQualityUCI.csv") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, text)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _no_variable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real" not in request.node.name:
        monkeypatch.delenv("RMCVI_AIR_QUALITY", raising=False)


def _check_small(data: Any) -> None:
    assert data.names == ("CO(GT)", "NMHC(GT)", "NOx(GT)", "NO2(GT)", "C6H6(GT)", "T", "RH", "AH")
    assert data.y.shape == (30, 8)
    first = [10.5, np.nan, 166.0, np.nan, 110.9, 13.6, 48.9, 0.10578]
    np.testing.assert_array_equal(data.y[0], first)
    assert data.time[0] == 1078912800.0 and np.all(np.diff(data.time) == 3600.0)


def test_the_form_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "AirQualityUCI.csv"
    file.write_text(SMALL, newline="")
    _check_small(air_quality(file, check=False))
    _check_small(air_quality(tmp_path, check=False))
    monkeypatch.setenv("RMCVI_AIR_QUALITY", str(file))
    _check_small(air_quality(check=False))
    with_sensors = air_quality(check=False, sensors=True)
    assert with_sensors.y.shape == (30, 13) and with_sensors.names[8] == "PT08.S1(CO)"
    assert with_sensors.y[0, 8] == 1100.0


def test_it_needs_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(SMALL, newline="")
    stream = read(tmp_path / "a.csv")
    rows = list(stream)
    assert stream.schema.time == ("Date", "Time") and stream.schema.step == 3600.0
    assert stream.counts.blank == 5 and len(rows) == 30
    assert stream.schema.sentinels["NMHC(GT)"] == stream.schema.sentinels["AH"] == (-200.0,)


def test_download(tmp_path: Path) -> None:
    asked = []

    def opener(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(_packed(SMALL))

    for _ in range(2):
        _check_small(air_quality(cache=tmp_path / "c", opener=opener, check=False))
    assert asked == ["https://archive.ics.uci.edu/static/public/360/air+quality.zip"]
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["AirQualityUCI.csv"]


def test_failures_say_what_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(url: str, timeout: float) -> Any:
        raise urllib.error.URLError("no network")

    def other(url: str, timeout: float) -> Any:
        return io.BytesIO(_packed(SMALL, "other.csv"))

    def page(url: str, timeout: float) -> Any:
        return io.BytesIO(b"<html>gone</html>")

    for opener in (offline, other, page):
        with pytest.raises(DataError, match=r"AirQualityUCI\.csv.*RMCVI_AIR_QUALITY") as caught:
            air_quality(cache=tmp_path, opener=opener)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"path: got .*AirQualityUCI"):
        air_quality(tmp_path / "nowhere.csv")
    monkeypatch.setenv("RMCVI_AIR_QUALITY", str(tmp_path / "nowhere.csv"))
    with pytest.raises(DataError, match="RMCVI_AIR_QUALITY: got "):
        air_quality()


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(SMALL, newline="")
    with pytest.raises(DataError, match="got 30 rows, expected 9357"):
        air_quality(tmp_path / "a.csv")


@pytest.fixture(scope="module")
def real() -> AirQuality:
    return air_quality(_real(), sensors=True)


def _by_polars(name: str) -> np.ndarray:
    frame = pl.read_csv(_real(), separator=";", infer_schema=False).head(9357)
    text = frame[name].str.strip_chars().str.replace(",", ".", literal=True)
    values = text.cast(pl.Float64).to_numpy().copy()
    values[values == -200.0] = np.nan
    return values


def test_the_real_file_against_polars(real: AirQuality) -> None:
    for name, column in zip(real.names, real.y.T, strict=True):
        np.testing.assert_array_equal(column, _by_polars(name))


def test_one_changed_number_of_the_real_file_is_noticed(real: AirQuality) -> None:
    changed = real.y.copy()
    changed[0, 0] += 1.0
    with pytest.raises(DataError, match=r"column 'CO\(GT\)': got 7674 values with sum 16521\.2"):
        _check(real._replace(y=changed), Path("a.csv"))
    with pytest.raises(DataError, match="not an hour apart"):
        _check(real._replace(time=real.time[::-1]), Path("a.csv"))


def test_the_doctor_on_the_real_file(tmp_path: Path) -> None:
    rows = 1500
    lines = _real().read_bytes().splitlines(keepends=True)[: rows + 1]
    (tmp_path / "a.csv").write_bytes(b"".join(lines))
    found = doctor(tmp_path / "a.csv")
    assert (found.rows, found.period, found.gaps) == (rows, 3600.0, 0)
    for name, share in found.missing.items():
        assert share == np.isnan(_by_polars(name)[:rows]).mean()
        assert found.sentinels[name] == {"-200": round(share * rows)}
    assert not found.hidden and not found.constant and not found.stuck
