"""Topics as they lie in the log: committed records resolved by their markers, not by a consumer."""
