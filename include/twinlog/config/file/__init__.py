"""The properties file: lines, origins, precedence, providers of secrets, mistakes."""
