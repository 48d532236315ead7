"""One whole cycle of a flow around its copy: what comes before, and what follows."""
