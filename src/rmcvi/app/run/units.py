"""The unit in a column's name: 'T [°C]', 'flow (l/s)'."""

import re

_WORDS = """
°C °F C F K % %RH V mV kV A mA W kW MW Wh kWh MWh J kJ Pa hPa kPa bar mbar psi m mm cm km s ms min
h m/s km/h mph l l/s l/min m3/h m³/h kg g mg t ppm ppb ug/m3 µg/m3 µg/m³ mg/m3 mg/m³ g/m3 g/m³ Hz
kHz rpm dB lux lx N Nm W/m2 W/m² EUR USD
"""
_KNOWN = frozenset(_WORDS.split())
_SQUARE = re.compile(r"\[([^\[\]]{1,16})\]\s*$")
_ROUND = re.compile(r"\(([^()]{1,16})\)\s*$")


def unit_of(name: str) -> str | None:
    """What stands in square brackets, or in round ones if it is a unit that is known."""
    if match := _SQUARE.search(name):
        return match[1].strip()
    match = _ROUND.search(name)
    return match[1].strip() if match and match[1].strip() in _KNOWN else None
