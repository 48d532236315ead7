"""Find, behind the fence, what a target lost of a copy or of its state; rewrite it, or stop the partition."""
