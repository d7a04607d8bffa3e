"""What kernels/*.py are written with: LLVM's instructions, compiled in milliseconds."""
