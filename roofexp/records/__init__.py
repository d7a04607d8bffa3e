"""What is kept: records of points and machines, and the folder of a sweep."""
