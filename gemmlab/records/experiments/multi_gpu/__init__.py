"""One product over the GPUs of a host: what is measured (cases), how (measuring), and read back."""
