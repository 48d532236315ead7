"""One module per step of the cycle, named as its Dag task; each has a pure plan half."""
