"""Permissions: which a flow needs, which it has, and the ACLs that are missing."""
