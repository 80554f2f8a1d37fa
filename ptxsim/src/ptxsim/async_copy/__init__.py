"""Copies that end later: cp.async, bulk and tensor copies, mbarriers."""
