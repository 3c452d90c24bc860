"""What the guest asks of the kernel: bounds on a process, scratch folders, signals, sessions, descriptors, reaping."""
