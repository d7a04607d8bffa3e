"""What all figures are drawn with."""
