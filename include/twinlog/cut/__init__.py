"""The consistent cut: up to where the copies of a flow hold whole transactions of the source only."""
