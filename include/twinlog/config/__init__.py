"""Read MM2's properties file, from bytes to typed settings.  No cluster is contacted here."""
