"""What happens to a kernel in the worker process. Knows no device."""
