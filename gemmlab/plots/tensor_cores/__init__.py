"""Figures of tensor cores: who holds which element, and how operands lie."""
