"""Judge the facts of a flow: the rows that checks look at, made once for cycles, the gate and metrics."""
