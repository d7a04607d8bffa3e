"""The NVIDIA GPU as a device, on CuPy."""
