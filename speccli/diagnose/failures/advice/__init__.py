"""What is said of a fault for the figures of its log: functions from figures and the run to an `Advice`."""
