"""An archive of twinlog and what its tasks need, for executors on whose machines nothing is installed."""
