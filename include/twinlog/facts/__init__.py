"""The facts of a flow: one frozen value, observed on both clusters, or recalled from the target alone."""
