"""Typed settings of clusters and flows, made of the file."""
