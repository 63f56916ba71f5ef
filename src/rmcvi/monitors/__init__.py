"""Calibration and alarms: pure functions and small recursions; NaN, not observed, is skipped."""

from rmcvi.monitors.anomaly import Anomaly as Anomaly
from rmcvi.monitors.anomaly import AnomalyMonitor as AnomalyMonitor
from rmcvi.monitors.anomaly import AnomalyState as AnomalyState
from rmcvi.monitors.calibration import gaussian_p_value as gaussian_p_value
from rmcvi.monitors.calibration import interval_coverage as interval_coverage
from rmcvi.monitors.calibration import tail_p_value as tail_p_value
from rmcvi.monitors.drift import DriftDetector as DriftDetector
from rmcvi.monitors.drift import DriftState as DriftState
from rmcvi.monitors.errors import rmse as rmse
from rmcvi.monitors.errors import stepwise_rmse as stepwise_rmse
from rmcvi.monitors.health import Alarm as Alarm
from rmcvi.monitors.health import Health as Health
from rmcvi.monitors.peers import PeerMonitor as PeerMonitor
from rmcvi.monitors.peers import PeerState as PeerState
from rmcvi.monitors.sensor import SensorMonitor as SensorMonitor
from rmcvi.monitors.sensor import SensorState as SensorState
