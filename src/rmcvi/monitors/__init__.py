"""Scores and alarms: pure functions and small recursions, all of which skip NaN = not observed."""

from rmcvi.monitors.calibration import gaussian_p_value as gaussian_p_value
from rmcvi.monitors.calibration import interval_coverage as interval_coverage
from rmcvi.monitors.calibration import pit as pit
from rmcvi.monitors.calibration import sample_p_value as sample_p_value
from rmcvi.monitors.calibration import tail_p_value as tail_p_value
from rmcvi.monitors.drift import DriftDetector as DriftDetector
from rmcvi.monitors.drift import DriftState as DriftState
from rmcvi.monitors.errors import gap_to_oracle as gap_to_oracle
from rmcvi.monitors.errors import rmse as rmse
from rmcvi.monitors.errors import stepwise_rmse as stepwise_rmse
from rmcvi.monitors.gradient import SignalToNoise as SignalToNoise
from rmcvi.monitors.gradient import SignalToNoiseState as SignalToNoiseState
from rmcvi.monitors.gradient import contraction_rate as contraction_rate
from rmcvi.monitors.gradient import effective_sample_size as effective_sample_size
from rmcvi.monitors.health import Alarm as Alarm
from rmcvi.monitors.health import Health as Health
from rmcvi.monitors.peers import PeerMonitor as PeerMonitor
from rmcvi.monitors.peers import PeerState as PeerState
from rmcvi.monitors.scores import crps_gaussian as crps_gaussian
from rmcvi.monitors.scores import crps_samples as crps_samples
from rmcvi.monitors.scores import gaussian_log_score as gaussian_log_score
from rmcvi.monitors.scores import sample_log_score as sample_log_score
from rmcvi.monitors.sensor import SensorMonitor as SensorMonitor
from rmcvi.monitors.sensor import SensorState as SensorState
