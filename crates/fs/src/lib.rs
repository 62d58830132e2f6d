//! Filesystems, the guard that makes scratch devices, and the lifecycle from mkfs to unmount.
