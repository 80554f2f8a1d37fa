"""For every Jupyter command of this checkout."""

c = get_config()  # noqa: F821  (Jupyter defines it)

# Server and kernel talk over local sockets; other users of the machine cannot listen in.
c.KernelManager.transport_encryption = "auto"
