"""Read the configuration of other tools, and write the mm2.properties that means the same."""
