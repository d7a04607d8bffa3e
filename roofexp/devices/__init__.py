"""The machines that can be measured. ``base`` says what a device must do; ``open_device`` chooses one."""
