"""What copies by tensor map, warpgroups, clusters and blocks that stay do: for rungs 16 to 18."""
