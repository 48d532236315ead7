"""How many lanes a flow needs, how long it takes, and what breaks first: a model of measured costs.  Pure."""
