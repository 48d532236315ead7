"""What a target lost of a copy or of its state: found behind the fence, written again or stopped at."""
