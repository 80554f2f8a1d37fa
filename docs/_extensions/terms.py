"""The first use of a glossary term on a page shows its sentence."""


def setup(app):
    return {"parallel_read_safe": True, "parallel_write_safe": True}
