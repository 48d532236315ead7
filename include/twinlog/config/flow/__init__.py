"""Typed settings of clusters and flows, made from the file."""
