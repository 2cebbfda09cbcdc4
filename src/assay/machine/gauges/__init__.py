"""The gauges that a monitor samples: one file per part of the machine."""
