//! What happens: label, ask the kernel, commit.
