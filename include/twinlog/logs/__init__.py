"""Read topics directly from the log: committed records are resolved by their markers, not by a consumer."""
