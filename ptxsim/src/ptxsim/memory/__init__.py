"""Global, shared and local memory, and what lanes do to them."""
