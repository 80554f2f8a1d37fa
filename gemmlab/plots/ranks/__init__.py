"""Products over several GPUs: who holds what, what runs when, and how far it scales."""
