"""8-bit floats with scales: conversions and scales as traced, sums in turn, costs as recorded."""
