"""Every figure of the series, in one palette. Each function returns a matplotlib Figure."""

from gemmlab.plots.access import address_map, block_map, traffic, warp_map
