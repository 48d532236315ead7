"""Read from its log what one side of a flow alone has, and write it to files."""
