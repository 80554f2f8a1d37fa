"""Ranks on several GPUs: how they start, meet and exchange parts."""
