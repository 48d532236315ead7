"""One module per resource of a cluster: frozen values out, our errors raised."""
