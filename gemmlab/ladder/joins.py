"""How parts of a product along K are added: what the values of JOIN mean."""

JOINS = (
    "alone", "a second kernel", "atomics", "the last arriver", "every part", "a cluster",
    "stream-K",
)  # fmt: skip
ALONE, SECOND_KERNEL, ATOMICS, LAST_ARRIVER, EVERY_PART, CLUSTER, STREAM_K = range(len(JOINS))
