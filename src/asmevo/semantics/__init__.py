"""What instructions mean: AMD's pseudocode as typed expressions; what it leaves out is written in the same form."""
