"""Scores and alarms: pure functions and small recursions, all of which skip NaN = not observed."""

from rmcvi.diagnostics._calibration import gaussian_p_value as gaussian_p_value
from rmcvi.diagnostics._calibration import interval_coverage as interval_coverage
from rmcvi.diagnostics._calibration import pit as pit
from rmcvi.diagnostics._calibration import sample_p_value as sample_p_value
from rmcvi.diagnostics._calibration import tail_p_value as tail_p_value
from rmcvi.diagnostics._drift import DriftDetector as DriftDetector
from rmcvi.diagnostics._drift import DriftState as DriftState
from rmcvi.diagnostics._errors import gap_to_oracle as gap_to_oracle
from rmcvi.diagnostics._errors import rmse as rmse
from rmcvi.diagnostics._errors import stepwise_rmse as stepwise_rmse
from rmcvi.diagnostics._gradient import SignalToNoise as SignalToNoise
from rmcvi.diagnostics._gradient import SignalToNoiseState as SignalToNoiseState
from rmcvi.diagnostics._gradient import contraction_rate as contraction_rate
from rmcvi.diagnostics._gradient import effective_sample_size as effective_sample_size
from rmcvi.diagnostics._peers import PeerMonitor as PeerMonitor
from rmcvi.diagnostics._peers import PeerState as PeerState
from rmcvi.diagnostics._scores import crps_gaussian as crps_gaussian
from rmcvi.diagnostics._scores import crps_samples as crps_samples
from rmcvi.diagnostics._scores import gaussian_log_score as gaussian_log_score
from rmcvi.diagnostics._scores import sample_log_score as sample_log_score
from rmcvi.diagnostics._sensor import SensorMonitor as SensorMonitor
from rmcvi.diagnostics._sensor import SensorState as SensorState
