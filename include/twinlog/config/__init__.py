"""MM2's properties file, from bytes to typed settings: read, resolve, explain.  No cluster is contacted here."""
