"""The few compiled loops: exact samplers and histograms."""
