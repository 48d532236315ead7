"""Find, read and build thousands of records at once, column by column, with numpy."""
